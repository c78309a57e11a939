import pytest

from workers.cli.config import Contexts, Place, find_place, read_contexts, write_contexts
from workers.cli.errors import INVALID, CLIError

pytestmark = pytest.mark.unit


@pytest.fixture
def environ(tmp_path):
    return {"TOKENYARD_CONFIG": str(tmp_path / "config.json")}


@pytest.fixture
def kept(tmp_path):
    places = {"prod": Place("https://prod", "tys-prod"), "lab": Place("http://lab", "tys-lab")}
    write_contexts(tmp_path / "config.json", Contexts(current="prod", places=places))
    return tmp_path / "config.json"


def place(environ, url="", token="", context=""):
    return find_place(url=url, token=token, context=context, environ=environ)


def test_what_is_kept_is_only_its_owners(kept):
    assert kept.stat().st_mode & 0o777 == 0o600
    assert read_contexts(kept).places["lab"] == Place("http://lab", "tys-lab")


def test_a_file_that_others_may_read_is_refused(kept, environ):
    kept.chmod(0o644)
    with pytest.raises(CLIError, match="chmod 600"):
        place(environ)


def test_options_win_over_the_environment_and_that_over_the_file(kept, environ):
    assert place(environ) == Place("https://prod", "tys-prod")
    assert place(environ, context="lab").url == "http://lab"
    environ |= {"TOKENYARD_URL": "http://env/", "TOKENYARD_TOKEN": "tys-env"}
    assert place(environ) == Place("http://env", "tys-env")
    assert place(environ, url="http://option", token="tys-option") == Place("http://option", "tys-option")


@pytest.mark.parametrize(
    ("asked", "words"),
    [({}, "tokenyard login"), ({"url": "ftp://x"}, "no address"), ({"context": "nope"}, "no context")],
)
def test_what_leads_nowhere_is_said(environ, asked, words):
    with pytest.raises(CLIError, match=words):
        place(environ, **asked)


def test_a_file_that_is_broken_is_named(kept, environ):
    kept.write_text("{")
    with pytest.raises(CLIError, match="cannot be read"):
        place(environ)


def test_an_address_that_is_none_is_invalid_input(environ):
    with pytest.raises(CLIError) as refused:
        place(environ, url="ftp://x")
    assert refused.value.exit_code == INVALID
