import pytest
from msgspec import structs

from workers.contracts.snapshot import TenantPolicy
from workers.gateway.driving.flows import MAX_FLOWS_PER_TENANT, Flows, Share

pytestmark = pytest.mark.unit

TENANT = TenantPolicy(tenant_id="t", name="t", service_class="gold", slo_profile="p", weight=2.0, max_queued_requests=9)


def parts_of(share: Share):
    return share.account, share.weight, share.max_queued


def test_a_tenant_without_flows_has_its_whole_share():
    assert parts_of(Flows().enter(TENANT, b"")) == ("t", 2.0, 9)


def test_flows_divide_weight_and_queue_of_their_tenant():
    flows = Flows()
    first = flows.enter(TENANT, b"a")
    second = flows.enter(TENANT, b"b")
    assert first.account != second.account
    assert (first.weight, second.weight, second.max_queued) == (2.0, 1.0, 4)
    assert flows.enter(TENANT, b"").weight == pytest.approx(2 / 3)


def test_the_weights_of_all_that_a_tenant_has_now_follow_an_edit():
    flows = Flows()
    assert flows.weights(TENANT) == {"t": 2.0}
    accounts = [flows.enter(TENANT, name).account for name in (b"a", b"b")]
    edited = structs.replace(TENANT, weight=6.0)
    assert flows.weights(edited) == {accounts[0]: 3.0, accounts[1]: 3.0, "t": 2.0}


def test_a_flow_that_has_ended_leaves_nothing():
    flows = Flows()
    share = flows.enter(TENANT, b"a")
    flows.leave("t", share.account)
    flows.leave("t", "t")
    assert parts_of(flows.enter(TENANT, b"")) == ("t", 2.0, 9)
    assert flows._live == {}


def test_a_million_names_make_a_bounded_number_of_accounts():
    flows = Flows()
    accounts = {flows.enter(TENANT, b"%d" % number).account for number in range(10_000)}
    assert len(accounts) == MAX_FLOWS_PER_TENANT
