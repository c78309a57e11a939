"""Reading a model's facts from a hub: a local one that answers as Hugging Face's does."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rest_framework.test import APIClient

from apps.registry.models import ModelVersion
from tests.factories.domain import make_people
from tests.support import model_configs as configs

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

ABOUT = {
    "sha": "abc123",
    "tags": ["license:apache-2.0", "text-generation", "no:slug"],
    "siblings": [{"rfilename": "config.json", "size": 9}, {"rfilename": "model.safetensors.index.json"}],
}
FILES = {
    "/api/models/acme/llama/revision/main?blobs=true": ABOUT,
    "/acme/llama/resolve/main/config.json": configs.LLAMA3_8B,
    "/acme/llama/resolve/main/model.safetensors.index.json": {"metadata": {"total_size": 16_060_522_496}},
    "/api/models/acme/one-file/revision/v2?blobs=true": {"siblings": [{"rfilename": "model.safetensors", "size": 7}]},
    "/acme/one-file/resolve/v2/config.json": configs.LLAMA3_8B,
    "/api/models/acme/odd/revision/main?blobs=true": [1],
}


class Hub(BaseHTTPRequestHandler):
    def do_GET(self):
        status = 403 if "gated" in self.path else 200 if self.path in FILES else 500 if "broken" in self.path else 404
        body = json.dumps(FILES.get(self.path, {})).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(settings):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    settings.HUB_URL = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def operator():
    client = APIClient()
    client.force_login(make_people().operator)
    return client


def facts(client, **query):
    return client.get("/api/v1/model-facts/", query)


def test_config_weights_licence_and_commit_are_read(operator, hub):
    read = facts(operator, source="acme/llama").json()
    assert (read["commit"], read["licence"], read["tags"]) == ("abc123", "apache-2.0", ["text-generation"])
    assert read["weight_bytes"] == 16_060_522_496
    assert read["config"]["hidden_size"] == configs.LLAMA3_8B["hidden_size"]


def test_without_an_index_the_files_tell(operator, hub):
    assert facts(operator, source="acme/one-file", revision="v2").json()["weight_bytes"] == 7


def test_a_version_is_made_of_what_was_read_and_what_was_given_wins(operator, hub):
    model = operator.post("/api/v1/models/", {"name": "llama", "task": "generate"}, format="json").json()
    new = {
        "label": "v1",
        "engine": "vllm",
        "source": "acme/llama",
        "served_name": "llama",
        "licence": "own",
        "fetch": True,
    }
    made = operator.post(f"/api/v1/models/{model['id']}/versions/", new, format="json")
    assert made.status_code == 201, made.json()
    version = ModelVersion.objects.get()
    assert (version.revision, version.licence, version.weight_bytes) == ("abc123", "own", 16_060_522_496)
    assert version.config == configs.LLAMA3_8B


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"source": "acme/nothing"}, 404, "not_found"),
        ({"source": "acme/gated"}, 400, "invalid_input"),
        ({"source": "acme/broken"}, 424, "hub_unavailable"),
        ({"source": "acme/odd"}, 424, "hub_unavailable"),
        ({"source": "/etc/passwd"}, 400, "invalid_input"),
        ({"source": "acme/llama", "revision": "../../x"}, 400, "invalid_input"),
        ({}, 400, "invalid_input"),
    ],
)
def test_what_cannot_be_read_says_why(operator, hub, query, status, code):
    answer = facts(operator, **query)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_hub_that_is_away_is_named_and_says_what_to_do(operator, settings):
    settings.HUB_URL = "http://127.0.0.1:1"
    answer = facts(operator, source="acme/llama")
    assert (answer.status_code, answer.json()["code"]) == (424, "hub_unavailable")
    assert "give config and weight_bytes yourself" in answer.json()["detail"]
