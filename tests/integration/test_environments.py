"""Making an engine's environment: never used half made, made once whoever asks."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workers.engines.environments.install import InstallFailedError, install
from workers.engines.environments.locate import environment_path, is_complete
from workers.engines.environments.recipes import Recipe, Step

pytestmark = pytest.mark.integration


def recipe(*steps: Step) -> Recipe:
    return Recipe(
        name="test", title="a test", download="0 MB", duration="a moment", locks=("base.in",), steps=lambda _: [*steps]
    )


def python(code: str, fallback: str | None = None) -> Step:
    return Step(argv=["-c", code], fallback=["-c", fallback] if fallback else None)


def test_size_and_time_are_announced_before_they_are_spent(tmp_path):
    announced: list[str] = []
    path = install(recipe(), tmp_path, announced.append)
    assert "0 MB to download" in announced[0]
    assert "a moment" in announced[0]
    assert is_complete(path)


def test_steps_run_in_the_environments_own_python(tmp_path):
    record = tmp_path / "prefix"
    path = install(recipe(python(f"import sys; open({str(record)!r}, 'w').write(sys.prefix)")), tmp_path, print)
    assert Path(record.read_text()) == path


def test_a_failed_step_leaves_nothing_behind_and_says_what_failed(tmp_path):
    failing = recipe(python("raise SystemExit(7)"))
    with pytest.raises(InstallFailedError, match="status 7"):
        install(failing, tmp_path, print)
    assert not environment_path(failing, tmp_path).exists()


def test_a_step_that_fails_is_replaced_by_its_fallback(tmp_path):
    assert is_complete(install(recipe(python("raise SystemExit(7)", fallback="pass")), tmp_path, print))


def test_an_environment_that_was_left_half_made_is_made_anew(tmp_path):
    path = environment_path(recipe(), tmp_path)
    path.mkdir(parents=True)
    (path / "rubbish").touch()
    install(recipe(), tmp_path, print)
    assert not (path / "rubbish").exists()


def test_two_who_ask_at_once_get_one_made_once(tmp_path):
    record = tmp_path / "runs"
    slow = recipe(python(f"import time; time.sleep(0.5); open({str(record)!r}, 'a').write('x')"))
    threads = [threading.Thread(target=install, args=(slow, tmp_path, print)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert record.read_text() == "x"


def test_the_command_prints_the_path_and_nothing_else_on_stdout():
    command = [sys.executable, "-m", "workers.engines.environments", "path", "llamacpp"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert Path(printed.strip()).parent.name == "engines"
