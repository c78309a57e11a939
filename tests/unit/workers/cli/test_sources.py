import pytest

from workers.cli.sources import Sources

pytestmark = pytest.mark.unit

YARD = """\
kind: Model
name: m
---
# nothing here
---
kind: Deployment
name: d
requirements:
  labels: {zone: a}
  gpu_models: [H100, L4]
"""
MORE = "[{kind: Model, name: a},\n {kind: Model,\n  name: b}]\n"
ALL = '{"documents": [\n{"kind": "Route"}]}'
SOURCES = Sources([("yard.yaml", YARD), ("more.yaml", MORE), ("all.json", ALL)])


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("documents[0].name", "yard.yaml line 2"),
        ("documents[1].requirements", "yard.yaml line 8"),
        ("documents[1].requirements.labels.zone", "yard.yaml line 9"),
        ("documents[1].requirements.gpu_models[1]", "yard.yaml line 10"),
        ("documents[1].version", "yard.yaml line 6"),
        ("documents[2].kind", "more.yaml line 1"),
        ("documents[3].name", "more.yaml line 3"),
        ("documents[4].public_name", "all.json line 2"),
        ("documents[5].name", ""),
        ("documents", ""),
        ("set", ""),
    ],
)
def test_a_field_of_a_document_is_on_its_line_and_one_that_is_missing_on_that_of_what_lacks_it(path, place):
    assert SOURCES.place_of(path) == place


def test_a_line_of_all_files_together_is_one_of_one_of_them():
    whole = SOURCES.text.split("\n")
    assert SOURCES.place_of_line(whole.index("name: d") + 1) == "yard.yaml line 7"
    assert SOURCES.place_of_line(whole.index(MORE.split("\n", maxsplit=1)[0]) + 1) == "more.yaml line 1"
    assert SOURCES.place_of_line(whole.index('{"documents": [') + 1) == "all.json line 1"


def test_what_cannot_be_read_has_no_places():
    assert Sources([("bad.yaml", "a: [")]).place_of("documents[0].a") == ""
