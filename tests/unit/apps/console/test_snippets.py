import ast
import json
import shlex

import pytest

from apps.console.policies.snippets import api_call, snippets_for

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
