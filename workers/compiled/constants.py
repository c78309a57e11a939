"""What never changes is said to be Final before it is compiled: then the value stands where the name is used.

Without that each use is a look-up in the module's dict and arithmetic on objects. It is done to the copy that is
compiled, since in the sources it would be noise on each constant; mypy refuses the build if one is assigned to.
"""

import ast
import re

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
_IMPORT = "from typing import Final as _Final\n"


def fix_constants(source: str) -> str:
    """The same module; a number or text that is given a name in capitals at its top is Final."""
    module = ast.parse(source)
    lines = source.splitlines(keepends=True)
    for statement in reversed(module.body):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            _fix(lines, statement, statement.targets[0])
    lines.insert(_first_line(module), _IMPORT)
    return "".join(lines)


def _fix(lines: list[str], statement: ast.Assign, target: ast.expr) -> None:
    at, value = statement.lineno - 1, statement.value
    if _is_fixed(target, value):
        lines[at] = lines[at].replace(" =", ": _Final =", 1)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=True))
        if all(_is_fixed(name, one) for name, one in pairs):
            lines[at] = "; ".join([f"{ast.unparse(name)}: _Final = {ast.unparse(one)}" for name, one in pairs]) + "\n"


def _is_fixed(target: ast.expr, value: ast.expr) -> bool:
    """Mypyc knows the value of a literal; of what is computed once it does not."""
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    is_literal = isinstance(value, ast.Constant) and isinstance(value.value, int | float | str | bytes)
    return is_literal and isinstance(target, ast.Name) and _CONSTANT.fullmatch(target.id) is not None


def _first_line(module: ast.Module) -> int:
    """Before everything but the docstring."""
    first = module.body[0] if module.body else None
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or 0) if first is not None and is_docstring else 0
