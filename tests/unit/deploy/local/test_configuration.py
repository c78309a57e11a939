from pathlib import Path

import pytest

from deploy.local.configuration import ConfigurationError, read_configuration

pytestmark = pytest.mark.unit
ROOT = Path("/project")


def test_nothing_needs_to_be_set():
    configuration = read_configuration({}, root=ROOT)
    assert configuration.var == ROOT / "var"
    assert configuration.engine == "auto"
    assert configuration.web_url == "http://127.0.0.1:8000"
    assert configuration.gateway_url == "http://127.0.0.1:8080"


def test_every_port_is_named_with_the_variable_that_moves_it():
    configuration = read_configuration({"TOKENYARD_WEB_PORT": "8100"}, root=ROOT)
    assert configuration.named_ports()[8100] == ("console and REST", "TOKENYARD_WEB_PORT")
    assert configuration.named_ports()[9002] == ("engine 3", "TOKENYARD_ENGINE_PORT_BASE")


@pytest.mark.parametrize("value", ["http", "0", "-1", "70000", "80.5", "\uff18\uff10"])
def test_a_bad_port_is_refused_by_name(value):
    with pytest.raises(ConfigurationError, match="TOKENYARD_GATEWAY_PORT"):
        read_configuration({"TOKENYARD_GATEWAY_PORT": value}, root=ROOT)


@pytest.mark.parametrize("environ", [{"TOKENYARD_WEB_PORT": "8080"}, {"TOKENYARD_WEB_PORT": "9001"}])
def test_one_port_for_two_things_is_refused(environ):
    with pytest.raises(ConfigurationError, match="same port"):
        read_configuration(environ, root=ROOT)


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(ConfigurationError, match="auto, vllm, llamacpp, fake"):
        read_configuration({"ENGINE": "gpt"}, root=ROOT)


@pytest.mark.parametrize("value", ["two", "0", "-1", "65", "1.5"])
def test_a_bad_number_of_processes_is_refused_by_name(value):
    with pytest.raises(ConfigurationError, match="TOKENYARD_GATEWAY_PROCESSES"):
        read_configuration({"TOKENYARD_GATEWAY_PROCESSES": value}, root=ROOT)


def test_the_gateway_has_the_processes_that_are_asked_for():
    assert read_configuration({}, root=ROOT).gateway_processes == 1
    assert read_configuration({"TOKENYARD_GATEWAY_PROCESSES": "3"}, root=ROOT).gateway_processes == 3
