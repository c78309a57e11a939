import ast

import pytest

from workers.compiled.constants import fix_constants
from workers.compiled.selection import ROOT, list_sources

pytestmark = pytest.mark.unit


def test_a_constant_is_final():
    assert "LIMIT: _Final = 3\n" in fix_constants('"""Doc."""\n\nLIMIT = 3\n')


def test_constants_that_share_a_line_are_too():
    assert "_A: _Final = 1; B: _Final = -2\n" in fix_constants("_A, B = 1, -2\n")


def test_the_docstring_stays_first():
    module = ast.parse(fix_constants('"""Doc."""\n\nimport re\n\nLIMIT = 3\n'))

    assert ast.get_docstring(module) == "Doc."


@pytest.mark.parametrize(
    "line",
    [
        "logger = get()",
        "Alias = dict[str, int]",
        "LIMIT: int = 3",
        "a, B = f()",
        "PAIR = (1, 2)",
        "PATTERN = compile(1)",
    ],
)
def test_whatever_else_there_is_stays_as_it_is(line: str):
    assert line in fix_constants(f"{line}\n")


def test_every_module_says_the_same_as_before():
    """But for the import and the annotations."""
    for source in list_sources():
        text = (ROOT / source).read_text()

        assert _stripped(fix_constants(text)) == _stripped(text), source


def _stripped(text: str) -> list[str]:
    statements = [statement for statement in ast.parse(text).body if not _is_import_of_final(statement)]
    return [part for statement in statements for part in _parts(statement)]


def _is_import_of_final(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.names[0].asname == "_Final"


def _parts(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation) == "_Final":
        assert statement.value is not None
        return [f"{ast.unparse(statement.target)} = {ast.unparse(statement.value)}"]
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
        target = statement.targets[0]
        if isinstance(target, ast.Tuple):
            pairs = zip(target.elts, statement.value.elts, strict=True)
            return [f"{ast.unparse(name)} = {ast.unparse(value)}" for name, value in pairs]
    return [ast.unparse(statement)]
