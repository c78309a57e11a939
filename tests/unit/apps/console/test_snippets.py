import ast
import json
import shlex

import pytest
import yaml

from apps.console.policies.snippets import api_call, apply_line, batch_line, cli_line, snippets_for

pytestmark = pytest.mark.unit

AWKWARD_MODEL = 'it\'s "quoted" $HOME'


def snippets(models):
    return snippets_for(gateway_url="http://127.0.0.1:8080", key="ty-abc-secret", models=models)


def test_the_curl_line_survives_the_shell_whatever_the_model_is_called():
    words = shlex.split(snippets([AWKWARD_MODEL])["curl"].replace("\\\n", " "))
    assert words[3] == "http://127.0.0.1:8080/v1/chat/completions"
    assert "Authorization: Bearer ty-abc-secret" in words
    assert json.loads(words[-1])["model"] == AWKWARD_MODEL


def test_the_python_snippet_is_python_with_the_values_filled_in():
    source = snippets([AWKWARD_MODEL])["python"]
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    assert {AWKWARD_MODEL, "ty-abc-secret", "http://127.0.0.1:8080/v1"} <= set(texts)


def test_without_a_model_a_placeholder_says_so():
    assert '"MODEL"' in snippets([])["curl"]


def test_a_call_of_the_api_leaves_the_token_to_the_reader():
    line = api_call(web_url="http://console", method="PATCH", path="/api/v1/routes/1/", body={"targets": []})
    assert '-H "Authorization: Bearer $TOKENYARD_TOKEN"' in line
    assert "-X PATCH http://console/api/v1/routes/1/" in line


def test_a_command_survives_the_shell():
    assert shlex.split(cli_line("scale", "it's chat", "--replicas", "3")) == [
        "tokenyard",
        "scale",
        "it's chat",
        "--replicas",
        "3",
    ]


def test_what_is_declared_is_yaml_that_means_the_same():
    text = apply_line({"kind": "Deployment", "name": AWKWARD_MODEL, "replica_count": 2, "gone": None})
    document = "\n".join(text.splitlines()[1:-1])
    assert yaml.safe_load(document) == {"kind": "Deployment", "name": AWKWARD_MODEL, "replica_count": 2}


def test_models_that_embed_have_a_snippet_of_their_own():
    found = snippets_for(gateway_url="http://127.0.0.1:8080", key="ty-abc", models=["e"], task="embed")
    assert "http://127.0.0.1:8080/v1/embeddings" in found["curl"]
    assert ast.parse(found["python"])


def test_a_line_of_a_batch_names_the_model():
    assert json.loads(batch_line(model=AWKWARD_MODEL))["body"]["model"] == AWKWARD_MODEL
