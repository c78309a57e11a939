"""Where in which file something is written, for problems that are told of all documents together."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import yaml

BETWEEN = "\n---\n"
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


class Sources:
    """`files` are names with their texts, in the order in which they are sent, one after the other."""

    def __init__(self, files: Sequence[tuple[str, str]]) -> None:
        self._files = files

    @property
    def text(self) -> str:
        return BETWEEN.join(text for _, text in self._files)

    def place_of(self, path: str) -> str:
        """Of `documents[3].replica_count`, or of what is nearest to it in its document; "" where there is none."""
        steps = [name or int(number) for number, name in _STEP.findall(path)]
        match steps:
            case ["documents", int(number), *rest] if number < len(documents := list(self._documents())):
                name, node = documents[number]
                return f"{name} line {_line_of(node, rest)}"
        return ""

    def place_of_line(self, number: int) -> str:
        """Of a line of the whole text."""
        for name, text in self._files:
            count = text.count("\n") + 1
            if number <= count:
                return f"{name} line {number}"
            number -= count + 1
        return ""

    def _documents(self) -> Iterator[tuple[str, yaml.Node]]:
        """As many as can be read: what cannot is told otherwise."""
        try:
            yield from chain.from_iterable(_documents_of(name, text) for name, text in self._files)
        except yaml.YAMLError:
            return


def _documents_of(name: str, text: str) -> Iterator[tuple[str, yaml.Node]]:
    for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
        if node is not None and node.tag != "tag:yaml.org,2002:null":
            yield from ((name, part) for part in _parts_of(node))


def _parts_of(node: yaml.Node) -> Iterator[yaml.Node]:
    """A list of documents, or an object that holds one, is several."""
    if isinstance(node, yaml.MappingNode):
        by_key = {key.value: value for key, value in node.value}
        inner = by_key.get("documents")
        if isinstance(inner, yaml.SequenceNode) and "kind" not in by_key:
            node = inner
    if isinstance(node, yaml.SequenceNode):
        yield from chain.from_iterable(_parts_of(each) for each in node.value)
    else:
        yield node


def _line_of(node: yaml.Node, steps: Sequence[str | int]) -> int:
    mark = node.start_mark
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(step)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step], node.value[step]
        else:
            found = None
        if found is None:
            break
        mark, node = found[0].start_mark, found[1]
    return int(mark.line) + 1
