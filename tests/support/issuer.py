"""An OpenID provider of our own, as a process: `python -m tests.support.issuer FD CLAIMS_FILE`.

It asks nobody anything: who is sent to it is the person of the claims file, which may also say how to lie. It does keep
the protocol: a code is good once, for the client, with the verifier that fits the challenge.
"""

import base64
import hashlib
import json
import secrets
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "tokenyard", "issuer-secret"


class Issuer(BaseHTTPRequestHandler):
    key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
    stranger_key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
    unnamed_keys = [RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256"}) for _ in range(2)]
    codes: dict[str, dict[str, str]] = {}
    claims_file: Path

    def do_GET(self):
        path, query = urlsplit(self.path).path, self._query(urlsplit(self.path).query)
        if path == "/.well-known/openid-configuration":
            self._json(200, self._person().get("metadata", self._metadata()))
        elif path == "/jwks":
            self._json(200, {"keys": [self._key(self._person()).as_dict(private=False)]})
        elif path == "/authorize":
            self._authorize(query)
        else:
            self._json(404, {})

    def do_POST(self):
        form = self._query(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = self.codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_sound = asked is not None and self.headers.get("Authorization") == f"Basic {basic}"
        if not is_sound or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            self._json(400, {"error": "invalid_grant"})
            return
        self._json(200, {"access_token": "a", "token_type": "Bearer", "id_token": self._token(asked)})

    def _authorize(self, query):
        assert query["code_challenge_method"] == "S256"
        assert {"state", "nonce", "code_challenge"} <= set(query)
        code = secrets.token_hex(8)
        self.codes[code] = query
        back = urlencode({"code": code, "state": query["state"]})
        self.send_response(302)
        self.send_header("Location", f"{query['redirect_uri']}?{back}")
        self.end_headers()

    def _token(self, asked):
        person = self._person()
        now = int(time.time())
        truth = {"iss": self._url(), "aud": CLIENT_ID, "nonce": asked["nonce"], "iat": now, "exp": now + 60}
        known_key = self._key(person)
        key = self.stranger_key if person.pop("is_forged", False) else known_key
        if person.pop("is_unsigned", False):
            parts = (json.dumps(part).encode() for part in ({"alg": "none"}, truth | person))
            return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""])
        header = {"alg": "RS256"} | ({"kid": key.kid} if key.kid else {})
        return jwt.encode(header, truth | person, key)

    def _person(self):
        return json.loads(self.claims_file.read_text())

    def _key(self, person):
        """The usual one, or that of those without an id which the claims name."""
        number = person.pop("unnamed_key", None)
        return self.key if number is None else self.unnamed_keys[number]

    def _metadata(self):
        url = self._url()
        return {
            "issuer": url,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "jwks_uri": f"{url}/jwks",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256", "none"],
        }

    def _url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def _query(self, text):
        return {name: values[-1] for name, values in parse_qs(text).items()}

    def _json(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Silent."""


def main():
    listener = socket.socket(fileno=int(sys.argv[1]))
    Issuer.claims_file = Path(sys.argv[2])
    server = ThreadingHTTPServer(listener.getsockname(), Issuer, bind_and_activate=False)
    server.socket.close()
    server.socket, server.server_address = listener, listener.getsockname()
    server.serve_forever()


if __name__ == "__main__":
    main()
