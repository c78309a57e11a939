import pytest

from workers.cli.commands import describing

pytestmark = pytest.mark.unit


class Nobody:
    def rows(self, *_, **__):
        return []


def test_a_replica_over_several_nodes_is_described_part_by_part(capsys):
    parts = [
        {"rank": 0, "node_name": "n1", "state": "ready", "detail": ""},
        {"rank": 1, "node_name": "n2", "state": "failed", "detail": "ended by SIGKILL"},
    ]
    describing._replica(Nobody(), {"id": "r", "parts": parts})
    said = capsys.readouterr().out
    assert "1 of 2 on n1: ready\n" in said
    assert "2 of 2 on n2: failed ended by SIGKILL\n" in said


def test_one_on_a_single_node_has_no_parts_to_show(capsys):
    describing._replica(Nobody(), {"id": "r", "parts": []})
    assert "Parts" not in capsys.readouterr().out
