"""Reads the fields of a request body as pydantic's lax mode does, and collects what is wrong in its words."""

from typing import Any

from workers.engines.fake.errors import describe_input, invalid_fields

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off"})


class Fields:
    """`close` raises everything found wrong at once, as vLLM reports it."""

    def __init__(self, body: dict[str, Any], path: str = "body") -> None:
        self._body = body
        self._path = path
        self._problems: list[dict[str, Any]] = []

    def __contains__(self, name: str) -> bool:
        return self._body.get(name) is not None

    def raw(self, name: str) -> Any:
        return self._body.get(name)

    def require(self, name: str) -> Any:
        if name not in self._body:
            self.refuse(name, "missing", "Field required", self._body)
        return self._body.get(name)

    def refuse(self, name: str, kind: str, message: str, value: Any) -> None:
        problem = {"type": kind, "loc": f"{self._path}.{name}", "msg": message, "input": describe_input(value)}
        self._problems.append(problem)

    def close(self) -> None:
        if self._problems:
            raise invalid_fields(self._problems)

    def nested(self, name: str) -> "Fields":
        """The object under `name`; an empty one when it is absent or no object."""
        value = self._body.get(name)
        if value is not None and not isinstance(value, dict):
            self.refuse(name, "dict_type", "Input should be a valid dictionary", value)
        inner = Fields(value if isinstance(value, dict) else {}, f"{self._path}.{name}")
        inner._problems = self._problems
        return inner

    def text(self, name: str) -> str | None:
        value = self._body.get(name)
        if value is not None and not isinstance(value, str):
            self.refuse(name, "string_type", "Input should be a valid string", value)
            return None
        if value is not None and not _is_unicode(value):
            message = "Input should be a valid string, unable to parse raw data as a unicode string"
            self.refuse(name, "string_unicode", message, value)
        return value

    def flag(self, name: str) -> bool:
        value = self._body.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        word = str(value).lower()
        if word not in _TRUE | _FALSE:
            self.refuse(name, "bool_parsing", "Input should be a valid boolean, unable to interpret input", value)
        return word in _TRUE

    def integer(self, name: str) -> int | None:
        value = self._body.get(name)
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, float):
            return self._whole(name, value)
        if not isinstance(value, str):
            self.refuse(name, "int_type", "Input should be a valid integer", value)
            return None
        try:
            return int(value)
        except ValueError:
            message = "Input should be a valid integer, unable to parse string as an integer"
            self.refuse(name, "int_parsing", message, value)
            return None

    def _whole(self, name: str, value: float) -> int | None:
        if value.is_integer():
            return int(value)
        message = "Input should be a valid integer, got a number with a fractional part"
        self.refuse(name, "int_from_float", message, value)
        return None

    def number(self, name: str) -> float | None:
        value = self._body.get(name)
        if value is None or isinstance(value, (int, float)):
            return None if value is None else float(value)
        if not isinstance(value, str):
            self.refuse(name, "float_type", "Input should be a valid number", value)
            return None
        try:
            return float(value)
        except ValueError:
            message = "Input should be a valid number, unable to parse string as a number"
            self.refuse(name, "float_parsing", message, value)
            return None


def _is_unicode(text: str) -> bool:
    """Half a surrogate pair is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
