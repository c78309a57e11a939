import pytest
from rest_framework.exceptions import ValidationError

from apps.common.errors import ConflictError
from apps.common.problems import render_problem

pytestmark = pytest.mark.unit


def test_a_domain_error_becomes_a_problem_with_code_and_fields():
    response = render_problem(ConflictError("taken", fields={"name": "is taken"}), {})
    assert response.status_code == 409
    assert response.data["type"] == "urn:tokenyard:problem:conflict"
    assert (response.data["detail"], response.data["fields"]) == ("taken", {"name": "is taken"})


def test_the_fields_of_nested_input_are_named_by_their_path():
    error = ValidationError({"targets": [{}, {"weight": ["too small"]}], "name": ["missing"]})
    fields = render_problem(error, {}).data["fields"]
    assert fields == {"targets[1].weight": "too small", "name": "missing"}


def test_an_error_that_nobody_foresaw_is_not_hidden():
    assert render_problem(RuntimeError("bug"), {}) is None
