"""Documents of YAML as plain data. Pure.

YAML as of its version 1.2 where it matters: `on` and `no` are texts, and so are dates. Aliases are refused, with which
a few lines can stand for gigabytes, and so is a name that is given twice.
"""

import re
from typing import Any

import yaml

MOST_DOCUMENTS = 500


class DocumentError(ValueError):
    """The message says where, by line."""


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            alias = self.peek_event()  # type: ignore[no-untyped-call]
            raise DocumentError(f"line {alias.start_mark.line + 1}: aliases (*name) are not taken")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise DocumentError(f"line {key.start_mark.line + 1}: {key.value!r} is given twice")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


_LEFT_OUT = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _LEFT_OUT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"true|false"), list("tf"))


def read_yaml(text: str) -> list[Any]:
    """Every document that is not empty."""
    try:
        return [each for each in yaml.load_all(text, Loader=_Loader) if each is not None]
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise DocumentError(f"{line}{error.problem or error.context or 'not YAML'}") from error
    except RecursionError as error:
        raise DocumentError("nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(str(error)) from error


def documents_of(content: Any) -> list[Any]:
    """A body is one document, a list of them, or {"documents": […]}."""
    if isinstance(content, dict) and isinstance(content.get("documents"), list) and "kind" not in content:
        return list(content["documents"])
    return [part for each in content for part in documents_of(each)] if isinstance(content, list) else [content]
