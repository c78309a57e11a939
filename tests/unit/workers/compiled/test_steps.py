from pathlib import Path
from types import SimpleNamespace

import pytest

from workers.compiled import steps

pytestmark = pytest.mark.unit


@pytest.fixture
def built(monkeypatch, tmp_path):
    """The modules that setup gets; mypyc gives all of them one list of arguments."""
    shared = ["-O2"]
    modules = [SimpleNamespace(extra_compile_args=shared) for _ in range(3)]
    told = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(steps, "mypycify", lambda *_arguments, **_named: modules)
    monkeypatch.setattr(steps, "setup", lambda **named: told.update(named))
    steps.main("library", ["workers/a.py"])
    return told["ext_modules"]


def test_every_module_is_compiled_with_each_option_once(built):
    assert [len(module.extra_compile_args) for module in built] == [len(set(built[0].extra_compile_args))] * 3
    assert "-fno-semantic-interposition" in built[0].extra_compile_args


def test_what_leads_to_a_traceback_is_declared_as_rare(built):
    arguments = built[0].extra_compile_args
    declarations = Path(arguments[arguments.index("-include") + 1])
    assert "void CPy_AddTraceback(" in declarations.read_text()
