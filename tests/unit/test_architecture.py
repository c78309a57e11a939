"""What linters cannot say about the tree. Import rules between packages are import-linter's (pyproject.toml)."""

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
MAX_MODULE_LINES = 400
IMPURE_MODULES = {"asyncio", "time", "os", "logging", "threading", "socket", "subprocess", "secrets"}
CLOCKS_AND_DICE = {"now", "utcnow", "today", "uuid1", "uuid4", "uuid7"}
POLICIES = [*ROOT.glob("apps/*/policies.py"), *ROOT.glob("apps/*/policies/*.py"), ROOT / "deploy/local/policies.py"]
PURE_MODULES = [*ROOT.glob("workers/scheduling/**/*.py"), *POLICIES]
SERVICES = list(ROOT.glob("apps/*/services.py"))


def modules(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [path for path in found if "migrations" not in path.parts]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def impurities(source: str) -> list[str]:
    """`random.Random` may be imported, to be passed in seeded; the module with its global state may not."""
    names = list(imported(ast.parse(source)))
    impure = [name for name in names if name.split(".")[0] in IMPURE_MODULES]
    return impure + [name for name in names if name.split(".")[0] == "random" and name != "random.Random"]


def called(source: str) -> list[str]:
    """`f` for f(), `.f` for anything.f()."""
    functions = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = [function.id for function in functions if isinstance(function, ast.Name)]
    return names + [f".{function.attr}" for function in functions if isinstance(function, ast.Attribute)]


def iterated_sets(source: str) -> list[int]:
    """Lines that loop over a set display, a set comprehension or a set() call: their order is the hash seed's."""
    loops = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.For | ast.comprehension)]
    return [loop.iter.lineno for loop in loops if is_set(loop.iter)]


def is_set(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"set", "frozenset"}
    return is_call or isinstance(node, ast.Set | ast.SetComp)


@pytest.mark.parametrize("path", modules("apps", "controlplane", "workers", "deploy", "tests", "benchmarks"), ids=str)
def test_a_module_can_be_read_in_one_sitting(path):
    assert len(path.read_text().splitlines()) <= MAX_MODULE_LINES


@pytest.mark.parametrize("path", PURE_MODULES, ids=str)
def test_decision_code_knows_no_clock_no_chance_and_no_io(path):
    source = path.read_text()
    assert impurities(source) == []
    assert not [name for name in called(source) if name.lstrip(".") in CLOCKS_AND_DICE]


@pytest.mark.parametrize("path", list(ROOT.glob("workers/scheduling/**/*.py")), ids=str)
def test_the_scheduler_is_told_the_time_as_a_number(path):
    assert not [name for name in imported(ast.parse(path.read_text())) if name.split(".")[0] in {"datetime", "uuid"}]


@pytest.mark.parametrize("path", PURE_MODULES, ids=str)
def test_decision_code_does_not_depend_on_the_hash_seed(path):
    assert "hash" not in called(path.read_text())
    assert iterated_sets(path.read_text()) == []


@pytest.mark.parametrize("path", POLICIES, ids=str)
def test_policies_know_nothing_of_django(path):
    assert not [name for name in imported(ast.parse(path.read_text())) if name.split(".")[0] == "django"]


@pytest.mark.parametrize("path", SERVICES, ids=str)
def test_services_never_import_tasks(path):
    assert not [name for name in imported(ast.parse(path.read_text())) if "tasks" in name.split(".")]


@pytest.mark.parametrize("path", modules("apps", "controlplane", "workers", "deploy"), ids=str)
def test_the_product_never_imports_its_tests(path):
    assert not [name for name in imported(ast.parse(path.read_text())) if name.split(".")[0] == "tests"]


def test_the_scanners_see_what_they_look_for():
    assert impurities("import time\nfrom random import Random, choice") == ["time", "random.choice"]
    assert called("x = hash('a')\ny = block.hash(datetime.now())") == ["hash", ".hash", ".now"]
    assert iterated_sets("for a in {1, 2}:\n    pass\n[b for b in set(c)]\n[d for d in (1, 2)]") == [1, 3]


def test_pure_packages_are_found():
    assert len(PURE_MODULES) > 1


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_git_tracks_nothing_that_a_run_makes():
    command = [shutil.which("git") or "git", "ls-files"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    made = ("var/", ".venv/", "staticfiles/", "test-artifacts/")
    assert [path for path in tracked.splitlines() if path.startswith(made) or path.endswith(".pyc")] == []
