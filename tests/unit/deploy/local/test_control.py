import json

import pytest

from deploy.local.configuration import read_configuration
from deploy.local.control import as_it_runs
from deploy.local.layout import Layout

pytestmark = pytest.mark.unit


def test_a_command_of_a_stack_that_runs_knows_its_ports_without_being_told(tmp_path):
    configuration, layout = read_configuration({}, root=tmp_path), Layout(tmp_path)
    assert as_it_runs(configuration, layout) == configuration
    urls = {"console_url": "http://127.0.0.1:1", "gateway_url": "http://127.0.0.1:2", "gateway_admin_url": "http://h:3"}
    layout.demo.write_text(json.dumps(urls))
    running = as_it_runs(configuration, layout)
    assert (running.web_url, running.gateway_port, running.gateway_admin_port) == ("http://127.0.0.1:1", 2, 3)
