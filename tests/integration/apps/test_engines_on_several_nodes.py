"""Replicas over several nodes: the real loop and database, and the agents' own decisions about engines made up.

A second passes with each step, in which the loop turns, nodes are told, look, act and report.
"""

from datetime import timedelta

import msgspec
import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from apps.common.actors import SYSTEM
from apps.deployments.models import Deployment, NodeDesired, Replica, ReplicaEvent
from apps.deployments.services.deployments import restart_replica
from apps.deployments.services.replicas import record_replica_reports
from apps.fleet.models import Node, NodeState
from apps.fleet.services.nodes import record_accelerators, remove_node
from apps.placement.services.loop import reconcile
from apps.placement.services.views import list_node_views
from tests.factories.domain import NOW, make_deployment, make_node, make_people, make_version
from tests.support.node_world import World
from workers.agent.engines.memory import WeightsView
from workers.contracts.desired import DesiredState
from workers.contracts.telemetry import AcceleratorReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

GIB = 1024**3


class Yard:
    def __init__(self, *names):
        self.now = NOW
        self.nodes = [self._node(name, number) for number, name in enumerate(names)]
        self.worlds = {node.pk: World() for node in self.nodes}
        self.cut_off = set()

    def _node(self, name, number):
        node = make_node(name, gateway_url=f"http://10.0.0.{number + 1}:8080")
        gpu = AcceleratorReport(
            index=0, key="0", kind="gpu", name="NVIDIA H100 80GB HBM3", memory_total_bytes=80 * GIB, memory_used_bytes=0
        )
        record_accelerators(node_id=node.pk, reports=[gpu])
        return node

    def deploy(self, **requirements):
        wanted = {"on": "gpu", "pipeline_parallel": 2, "memory_gib": 40} | requirements
        return make_deployment(make_version(), replica_count=1, requirements=wanted)

    def step(self, times=1):
        for _ in range(times):
            reconcile(holder="test", now=self.now)
            for node in self.nodes:
                if node.pk not in self.cut_off:
                    self._tell(node)
            self.now += timedelta(seconds=1)

    def _tell(self, node):
        world = self.worlds[node.pk]
        row = NodeDesired.objects.filter(node=node).first()
        world.desired = msgspec.json.decode(row.body, type=DesiredState) if row else None
        world.turn()
        record_replica_reports(node_id=node.pk, reports=list(world.reports.values()), now=self.now)

    def lose(self, node):
        self.cut_off.add(node.pk)
        Node.objects.filter(pk=node.pk).update(state=NodeState.OFFLINE, is_lost=True)

    def engine(self, node):
        return next(iter(self.worlds[node.pk].engines.values()), None)


def replica():
    return Replica.objects.filter(is_draining=False).get()


@pytest.fixture
def yard():
    found = Yard("n1", "n2")
    found.deploy()
    return found


@pytest.fixture
def served(yard):
    yard.step(12)
    assert replica().state == "ready", replica().detail
    return yard


def parts_of(yard):
    leader = replica().node_id
    return sorted(yard.nodes, key=lambda node: node.pk != leader)


def test_both_parts_begin_and_the_leader_answers_for_both(served):
    leader, follower = parts_of(served)
    mine, theirs = served.engine(leader).spec, served.engine(follower).spec
    assert (mine.part.rank, theirs.part.rank, mine.part.count) == (0, 1, 2)
    assert (mine.part.master_host, mine.part.master_port) == (theirs.part.master_host, theirs.part.master_port)
    assert (mine.accelerators, theirs.accelerators) == (["0"], ["0"])
    assert {told["state"] for told in replica().parts.values()} == {"ready"}
    assert all(view.occupants[0].bytes_each == 40 * GIB for view in list_node_views())


def test_neither_begins_before_the_other_has_its_weights(yard):
    yard.cut_off = {node.pk for node in yard.nodes}
    yard.step()
    yard.cut_off.clear()
    slow = parts_of(yard)[1]
    yard.worlds[slow.pk].weights = {str(replica().pk): WeightsView(detail="1 of 9 GiB", is_fetching=True)}
    yard.step(20)
    assert [yard.engine(node) for node in yard.nodes] == [None, None]
    assert {told["state"] for told in replica().parts.values()} == {"placed", "fetching"}
    yard.worlds[slow.pk].weights = {}
    yard.step(12)
    assert replica().state == "ready"


@pytest.mark.parametrize("rank", [0, 1])
def test_the_end_of_a_part_is_the_end_of_all_and_all_begin_again(served, rank):
    before = [served.engine(node) for node in served.nodes]
    served.engine(parts_of(served)[rank]).is_alive = False
    served.step(25)
    after = [served.engine(node) for node in served.nodes]
    assert all(old is not new and not old.is_alive for old, new in zip(before, after, strict=True))
    assert len({new.spec.part.run for new in after}) == 1
    assert after[0].spec.part.master_port != before[0].spec.part.master_port
    assert replica().state == "ready"
    told = ReplicaEvent.objects.filter(state="failed").values_list("detail", flat=True)
    assert any(f"part {rank + 1} of 2" in each and "all parts start again" in each for each in told)


def test_no_part_of_one_run_ever_runs_beside_a_part_of_another(served):
    for turn in range(45):
        if turn % 15 == 3:
            served.engine(parts_of(served)[turn % 2]).is_alive = False
        if turn == 22:
            restart_replica(actor=SYSTEM, replica=replica(), now=served.now)
        served.step()
        alive = [each for node in served.nodes if (each := served.engine(node)) and each.is_alive]
        assert len({each.spec.part.run for each in alive}) <= 1
    assert replica().incarnation >= 3


def test_what_breaks_again_and_again_is_given_up_with_the_cause_until_somebody_asks(yard):
    for _ in range(100):
        yard.step()
        for node in yard.nodes:
            if (engine := yard.engine(node)) and not engine.spec.part.leads:
                engine.is_alive = False
        if replica().has_given_up:
            break
        if not any(world.engines for world in yard.worlds.values()):
            yard.now += timedelta(minutes=5)
    assert "given up" in replica().detail
    yard.step(30)
    assert [yard.engine(node) for node in yard.nodes] == [None, None]
    restart_replica(actor=SYSTEM, replica=replica(), now=yard.now)
    yard.step(15)
    assert replica().state == "ready"


def test_a_restart_lets_the_leader_finish_while_the_others_stay(served):
    leader, follower = parts_of(served)
    served.engine(leader).running_requests = 2
    old = served.engine(follower)
    restart_replica(actor=SYSTEM, replica=replica(), now=served.now)
    served.step(15)
    assert replica().state == "draining"
    assert served.engine(follower) is old
    assert old.is_alive
    served.engine(leader).running_requests = 0
    served.step(20)
    assert replica().state == "ready"
    assert {served.engine(node).spec.part.run for node in served.nodes} == {1}


def test_a_drain_ends_the_leader_first_and_gives_each_node_its_memory_back(served):
    leader, follower = parts_of(served)
    served.engine(leader).running_requests = 2
    Deployment.objects.update(replica_count=0)
    served.step(10)
    assert served.engine(follower).is_alive
    served.engine(leader).running_requests = 0
    served.step(8)
    assert [served.engine(node) for node in served.nodes] == [None, None]
    served.step(3)
    assert not Replica.objects.exists()
    assert all(not view.occupants for view in list_node_views())


def test_the_row_stays_until_the_last_part_has_stopped(served):
    follower = parts_of(served)[1]
    served.engine(follower).minds_sigterm = False
    served.cut_off.add(follower.pk)
    Deployment.objects.update(replica_count=0)
    served.step(15)
    assert Replica.objects.get().state == "stopped"
    held = {view.node_id: bool(view.occupants) for view in list_node_views()}
    assert held == {node.pk: node.pk == follower.pk for node in served.nodes}
    served.cut_off.clear()
    served.step(10)
    assert not Replica.objects.exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_lost_node_loses_the_whole_replica_which_is_replaced_and_what_is_left_stops(rank):
    yard = Yard("n1", "n2", "n3")
    yard.deploy()
    yard.step(12)
    first = replica()
    on = [node for node in yard.nodes if str(node.pk) in first.node_ids]
    lost = next(node for node in on if (node.pk == first.node_id) == (rank == 0))
    other = next(node for node in on if node is not lost)
    yard.lose(lost)
    yard.step(30)
    assert replica().pk != first.pk
    assert str(lost.pk) not in replica().node_ids
    assert replica().state == "ready"
    assert yard.engine(other).spec.replica_id == str(replica().pk)
    assert Replica.objects.filter(pk=first.pk, is_draining=True).exists()
    Node.objects.filter(pk=lost.pk).update(state=NodeState.ONLINE, is_lost=False)
    yard.cut_off.clear()
    yard.step(15)
    assert list(Replica.objects.values_list("pk", flat=True)) == [replica().pk]
    assert yard.engine(lost) is None


def test_a_lost_node_may_be_removed_with_what_it_followed(served):
    follower = parts_of(served)[1]
    served.lose(follower)
    served.nodes.remove(follower)
    served.step(2)
    remove_node(actor=SYSTEM, node=Node.objects.get(pk=follower.pk), now=served.now)
    served.step(10)
    assert not Replica.objects.filter(is_draining=True).exists()
    assert served.engine(served.nodes[0]) is None


def test_a_node_with_a_follower_is_not_removed_and_drains_it(served):
    follower = parts_of(served)[1]
    with pytest.raises(Exception, match="drain it first"):
        remove_node(actor=SYSTEM, node=Node.objects.get(pk=follower.pk), now=served.now)
    Node.objects.filter(pk=follower.pk).update(is_draining=True)
    served.step(10)
    assert served.engine(follower) is None
    assert replica().node_id is None
    assert "is being drained" in replica().detail


def test_the_page_and_rest_say_how_each_part_is(served):
    client = APIClient()
    client.force_login(make_people().operator)
    leader, follower = parts_of(served)
    shown = client.get(f"/api/v1/replicas/{replica().pk}/").json()["parts"]
    assert [(part["rank"], part["node_name"], part["state"]) for part in shown] == [
        (0, leader.name, "ready"),
        (1, follower.name, "ready"),
    ]
    page = client.get(reverse("console:deployment", args=[replica().deployment_id])).content.decode()
    assert f'part 2 of 2 on <a href="/fleet/{follower.pk}/">{follower.name}</a>: ready' in page
    assert "part 2 of 2 on" in client.get(reverse("console:node", args=[follower.pk])).content.decode()


def test_it_is_found_by_any_of_its_nodes(served):
    client = APIClient()
    client.force_login(make_people().operator)
    third = make_node("n9")
    for node, count in ((parts_of(served)[0], 1), (parts_of(served)[1], 1), (third, 0)):
        for query in ({"node_id": node.pk}, {"node_name": node.name}):
            assert len(client.get("/api/v1/replicas/", query).data["results"]) == count, query
    several = ",".join(str(node.pk) for node in served.nodes)
    assert len(client.get("/api/v1/replicas/", {"node_id": several}).data["results"]) == 1


def test_a_pipeline_that_is_to_be_on_one_node_is_refused_in_numbers():
    yard = Yard("n1", "n2")
    yard.deploy(is_on_one_node=True)
    yard.step(2)
    assert "n1: takes 1 of the 2 pipeline stages, and all are to be on one node" in replica().detail
