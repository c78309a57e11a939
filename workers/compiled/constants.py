"""What never changes is said to be Final before it is compiled: then the value stands where the name is used.

Without that each use is a look-up in the module's dict and arithmetic on objects. It is done to the copy that is
compiled, since in the sources it would be noise on each constant; mypy refuses the build if one is assigned to.
"""

import ast
import re

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_IMPORT = "from typing import Final as _Final\n"


def fix_constants(source: str) -> str:
    """The same module; what is assigned once at its top under a name in capitals is Final."""
    module = ast.parse(source)
    lines = source.splitlines(keepends=True)
    for statement in reversed(module.body):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            _fix(lines, statement, statement.targets[0])
    lines.insert(_first_line(module), _IMPORT)
    return "".join(lines)


def _fix(lines: list[str], statement: ast.Assign, target: ast.expr) -> None:
    at = statement.lineno - 1
    if isinstance(target, ast.Name) and _CONSTANT.fullmatch(target.id):
        lines[at] = lines[at].replace(f"{target.id} =", f"{target.id}: _Final =", 1)
    elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
        pairs = list(zip(target.elts, statement.value.elts, strict=True))
        if statement.end_lineno == statement.lineno and all(isinstance(name, ast.Name) for name, _ in pairs):
            parts = [f"{ast.unparse(name)}: _Final = {ast.unparse(value)}" for name, value in pairs]
            lines[at] = "; ".join(parts) + "\n"


def _first_line(module: ast.Module) -> int:
    """Before everything but the docstring."""
    first = module.body[0] if module.body else None
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or 0) if first is not None and is_docstring else 0
