import msgspec
import pytest

from workers.contracts.example import build_snapshot
from workers.contracts.settlement import Settlement
from workers.gateway.apis.paths import ENGINE_PATHS
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.degrading import Alternative, alternatives_for
from workers.gateway.errors import GatewayError
from workers.gateway.payload.bodies import peek
from workers.gateway.payload.labels import note_headers
from workers.gateway.snapshots.directory import Directory

pytestmark = pytest.mark.unit

SNAPSHOT = build_snapshot(
    model="m", versions=[("large", 1, []), ("middle", 0, []), ("small", 0, [])], keys={"gold": "ty-gold"}, now=0.0
)
TENANT = SNAPSHOT.tenants[0]


def directory(*alternatives, versions=SNAPSHOT.versions):
    [route] = SNAPSHOT.routes
    changed = msgspec.structs.replace(route, alternatives=list(alternatives))
    return Directory(msgspec.structs.replace(SNAPSHOT, routes=[changed], versions=versions))


def offered_in(found):
    return {version: [other.version_id for other in others] for (_, version), others in found.alternatives.items()}


def names(body=b'{"model":"m"}', tokens=10, tenant=TENANT, offered=SNAPSHOT.versions, **headers):
    noted = note_headers([(name.replace("_", "-").encode(), value) for name, value in headers.items()])
    return [found.version.version_id for found in alternatives_for(offered, tenant, noted, peek(body), tokens)]


def test_what_stands_in_is_cheaper_than_what_it_stands_in_for():
    assert offered_in(directory("v2", "v3")) == {"v1": ["v2", "v3"], "v2": ["v3"]}


def test_a_route_without_alternatives_costs_a_request_nothing():
    assert not directory().alternatives


def test_a_version_that_is_gone_or_does_something_else_stands_in_for_nothing():
    embedding = [SNAPSHOT.versions[0], msgspec.structs.replace(SNAPSHOT.versions[1], task="embed")]
    assert offered_in(directory("v2", "v3", versions=embedding)) == {}


def test_a_new_order_of_alternatives_does_not_forget_who_is_on_which_version():
    before = directory()
    after = Directory(directory("v2").snapshot, before)
    assert after._splits["m"] is before._splits["m"]


@pytest.mark.parametrize(
    "pinned",
    [
        {"x_session_id": b"s"},
        {"x_workflow_id": b"w"},
        {"body": b'{"model":"m","user":"u"}'},
        {"x_degrade": b"never"},
    ],
)
def test_who_holds_on_to_a_version_keeps_it(pinned):
    assert names(**pinned) == []


def test_who_says_so_gets_another_version_in_spite_of_a_session():
    assert names(x_session_id=b"s", x_degrade=b"Allow") == ["v1", "v2", "v3"]


def test_any_other_word_is_refused():
    with pytest.raises(GatewayError) as refusal:
        names(x_degrade=b"perhaps")
    assert (refusal.value.status, refusal.value.param) == (400, "x-degrade")


def test_a_version_whose_context_is_too_short_does_not_stand_in():
    short = [msgspec.structs.replace(SNAPSHOT.versions[1], max_context_tokens=9), SNAPSHOT.versions[2]]
    assert names(tokens=10, offered=short) == ["v3"]


def test_a_degraded_request_is_asked_for_and_paid_for_as_what_it_became():
    tenant = msgspec.structs.replace(TENANT, discounts_bp={"m": 5000})
    version = msgspec.structs.replace(SNAPSHOT.versions[1], deployment_id="d2", label="v2\r\nx: ü")
    chosen = alternatives_for([version], tenant, {}, peek(b'{"model":"m"}'), 1)
    settlement = Settlement(
        request_id="r", arrived_at=0.0, tenant_id="gold", key_id="k", user_id="", service_class="gold", path="/"
    )
    question = Question(
        request=None,
        path=ENGINE_PATHS[b"/v1/chat/completions"],
        request_id="r",
        trace_parent=b"",
        peek=peek(b'{"model":"m"}'),
        public_model="m",
        served_name="large",
        alternatives=chosen,
    )
    header = question.degrade("v2", settlement)
    assert header == (b"x-degraded-to", b"m@v2%0D%0Ax: %C3%BC")
    assert (question.served_name, settlement.version_id, settlement.deployment_id) == ("middle", "v2", "d2")
    assert settlement.price.charged_e8 == 50_000_000


def test_an_alternative_has_the_name_of_its_model_and_label():
    assert Alternative(SNAPSHOT.versions[2], SNAPSHOT.versions[2].price).name == "m@v3"
