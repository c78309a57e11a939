"""What engines would keep of Responses, and for whoever asks: they know no tenants, and each keeps its own.

vLLM keeps nothing unless it is started to, and then for everybody. So nothing that is kept can be asked for through a
gateway, which answers as an engine does that keeps nothing.
"""

import msgspec

from workers.gateway.errors import GatewayError, bad_request
from workers.gateway.http.heads import Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.payload.bodies import Peek
from workers.gateway.payload.flags import is_true
from workers.gateway.snapshots.directory import Grant

RESPONSES = b"/v1/responses"


class VLLMGatewayError(GatewayError):
    """In vLLM's words, to the byte: its code is the status."""

    def body(self) -> bytes:
        error = {"message": self.message, "type": "invalid_request_error", "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


def response_not_found(response_id: str) -> GatewayError:
    message = f"Response with id '{response_id}' not found."
    return VLLMGatewayError(404, "response_not_found", message, param="response_id")


def refuse_what_is_kept(found: Peek) -> None:
    """Raises where the answer would need what an engine has kept, or would be kept there and made unseen."""
    if isinstance(found.previous_response_id, str):
        raise response_not_found(found.previous_response_id)
    if is_true(found.background):
        raise bad_request(
            "background_unsupported",
            "An answer is not made in the background here. Leave `background` out, or hand in a batch.",
            "background",
        )


def answer_stored(client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None:
    """`/v1/responses/{id}` and what is below it."""
    del client, grant, headers
    raise response_not_found(request.path.decode("utf-8", "replace").split("/")[3])
