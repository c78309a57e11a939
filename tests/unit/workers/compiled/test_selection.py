import ast
from pathlib import Path

import pytest

from workers.compiled.selection import ROOT, build_key, list_sources, module_name

pytestmark = pytest.mark.unit


def test_the_scheduler_and_the_path_of_a_request_are_compiled():
    names = {module_name(source) for source in list_sources()}

    assert {"workers.scheduling.scheduler", "workers.scheduling.planning.plan", "workers.gateway.front.intake"} <= names


def test_peers_and_reports_are_not():
    names = {module_name(source) for source in list_sources()}

    assert not [name for name in names if name.startswith("workers.scheduling.peers")]
    assert "workers.gateway.observing.exposition" not in names


def test_every_source_exists_and_comes_once():
    sources = list_sources()

    assert len(set(sources)) == len(sources)
    assert all((ROOT / source).is_file() for source in sources)


def test_a_build_is_for_exactly_the_sources_it_was_made_from(tmp_path: Path):
    module = tmp_path / "workers" / "scheduling" / "queue.py"
    module.parent.mkdir(parents=True)
    module.write_text("SLOTS = 1\n")
    before = build_key(tmp_path)

    module.write_text("SLOTS = 2\n")
    after = build_key(tmp_path)
    module.write_text("SLOTS = 1\n")

    assert before != after
    assert before == build_key(tmp_path)


def test_a_module_whose_types_are_relied_on_counts_too(tmp_path: Path):
    before = build_key(tmp_path)
    contract = tmp_path / "workers" / "contracts" / "usage.py"
    contract.parent.mkdir(parents=True)
    contract.write_text("")

    assert build_key(tmp_path) != before


def test_nothing_is_compiled_that_msgspec_decodes_into():
    """A compiled class says `type` of every field, so decoding would refuse everything, or read nothing."""
    fields = {
        name: names
        for package in ("contracts", "gateway", "scheduling")  # the simulator has other things by the same names
        for name, names in _fields_of_structs(ROOT / "workers" / package)
    }
    decoded = _closed_over(_decoded_names(ROOT / "workers") | _decoded_names(ROOT / "tests"), fields)
    compiled = {
        node.name
        for source in list_sources()
        for node in ast.walk(ast.parse((ROOT / source).read_text()))
        if isinstance(node, ast.ClassDef) and node.name in fields
    }

    assert {"Peek", "UsageRecord", "StepCost"} <= decoded
    assert not compiled & decoded


def test_no_interpreted_class_inherits_from_a_compiled_one():
    """mypyc lets it be defined, and refuses to make one: at the first request that needs it."""
    compiled = set(list_sources())
    bases = {
        source.relative_to(ROOT): _classes(ast.parse(source.read_text())) for source in (ROOT / "workers").rglob("*.py")
    }
    made_there = {name for source in compiled for name, _ in bases[source]}
    protocols = {name for classes in bases.values() for name, of in classes if "Protocol" in of}
    strays = {
        name: of & made_there - protocols
        for source, classes in bases.items()
        if source not in compiled
        for name, of in classes
    }

    assert {"EventStream", "NamedEvents", "StreamFilter"} <= made_there
    assert not {name: of for name, of in strays.items() if of}


def _classes(tree: ast.AST) -> list[tuple[str, set[str]]]:
    """Each with the names of its bases."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return [(node.name, set().union(*map(_named, node.bases))) for node in found]


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _trees(folder: Path):
    return (ast.parse(path.read_text()) for path in folder.rglob("*.py"))


def _fields_of_structs(folder: Path):
    for tree in _trees(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and {"Struct"} & {name for base in node.bases for name in _named(base)}:
                annotations = [item.annotation for item in node.body if isinstance(item, ast.AnnAssign)]
                yield node.name, set().union(*map(_names, annotations), set())


def _named(base: ast.expr) -> set[str]:
    return _names(base) | ({base.attr} if isinstance(base, ast.Attribute) else set())


def _decoded_names(folder: Path) -> set[str]:
    """What stands in `Decoder(T)`, and in `type=T` of any call."""
    found: set[str] = set()
    for tree in _trees(folder):
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "Decoder":
                found = found.union(*map(_names, call.args))
            found = found.union(*(_names(keyword.value) for keyword in call.keywords if keyword.arg == "type"))
    return found


def _closed_over(names: set[str], fields: dict[str, set[str]]) -> set[str]:
    closed, waiting = set(names), list(names)
    while waiting:
        new = fields.get(waiting.pop(), set()) - closed
        closed |= new
        waiting += new
    return closed
