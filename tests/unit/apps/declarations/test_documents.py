import pytest

from apps.declarations.policies.documents import DocumentError, documents_of, read_yaml

pytestmark = pytest.mark.unit


def test_a_stream_has_several_documents_and_empty_ones_do_not_count():
    assert read_yaml("kind: A\n---\n# nothing\n---\nkind: B\n") == [{"kind": "A"}, {"kind": "B"}]


def test_words_of_yaml_1_1_are_texts():
    assert read_yaml("on: gpu\nno: off\nat: 2026-11-29\nis: true\n") == [
        {"on": "gpu", "no": "off", "at": "2026-11-29", "is": True}
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "line 2: aliases"),
        ("a: 1\nb: 2\na: 3\n", "line 3: 'a' is given twice"),
        ("a: [1\n", "line"),
        ("a: !!python/object/apply:os.system [id]\n", "line 1"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_what_is_unsound_is_refused_with_its_line(text, words):
    with pytest.raises(DocumentError, match=words):
        read_yaml(text)


def test_a_body_is_one_document_or_several():
    one, two = {"kind": "A"}, {"kind": "B"}
    assert documents_of(one) == [one]
    assert documents_of([one, {"documents": [two]}]) == [one, two]
    assert documents_of({"documents": [one, two]}) == [one, two]
