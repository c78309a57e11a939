from hashlib import sha256

import msgspec
import pytest

from workers.contracts.example import build_snapshot
from workers.contracts.snapshot import TenantPolicy
from workers.gateway.driving.estimates import Estimates
from workers.gateway.driving.prefixes import MIN_BYTES
from workers.gateway.driving.terms import Caller, read_terms
from workers.gateway.driving.workflows import Workflows
from workers.gateway.errors import GatewayError
from workers.gateway.payload.bodies import peek
from workers.gateway.payload.labels import note_headers
from workers.gateway.snapshots.directory import Directory

pytestmark = pytest.mark.unit

SNAPSHOT = build_snapshot(
    model="m", versions=[("m", 100, [])], keys={name: f"ty-{name}" for name in ("gold", "standard", "batch")}, now=0.0
)
DIRECTORY = Directory(SNAPSHOT)


class KnownDriver:
    """What terms ask of a driver; `engines` are those of the one version there is."""

    def __init__(self, *, engines=2):
        self.estimates = Estimates()
        self.workflows = Workflows()
        self._engines = engines

    def has_choice(self, version_id):
        return version_id == "v1" and self._engines > 1


def terms(body=b'{"model":"m","prompt":"hello"}', *, key="standard", driver=None, directory=DIRECTORY, **headers):
    noted = note_headers([(name.replace("_", "-").encode(), value) for name, value in headers.items()])
    grant = directory.find_grant(f"ty-{key}".encode(), 1.0)
    version = directory.versions["v1"]
    caller = Caller(grant, noted, directory, version, 100.0)
    fields = ("max_completion_tokens", "max_tokens")
    return read_terms(driver or KnownDriver(), caller, peek(body), len(body), fields)


def request(*arguments, **named):
    return terms(*arguments, **named).request


def test_the_limits_and_the_weight_are_the_tenants():
    tenants = [
        TenantPolicy(tenant_id="a", name="a", service_class="standard", slo_profile="interactive", weight=3.0),
        *SNAPSHOT.tenants,
    ]
    key = msgspec.structs.replace(SNAPSHOT.keys[0], key_sha256=sha256(b"ty-a").hexdigest(), tenant_id="a")
    changed = Directory(msgspec.structs.replace(SNAPSHOT, tenants=tenants, keys=[key]))
    found = request(key="a", directory=changed)
    assert (found.ttft_slo_s, found.tpot_slo_s, found.tenant_weight, found.rank) == (2.0, 0.15, 3.0, 1)


def test_what_is_expected_of_a_request_is_known_before_it_runs():
    driver = KnownDriver()
    for _ in range(50):
        driver.estimates.learn_length("standard", "v1", 30)
    found = request(b'{"model":"m","prompt":[1,2,3,4],"max_tokens":500,"n":2}', driver=driver)
    assert found.prompt_tokens == 4
    assert found.predicted_output_tokens == pytest.approx(60, rel=0.1)


def test_an_answer_fits_into_the_context():
    versions = [msgspec.structs.replace(SNAPSHOT.versions[0], max_context_tokens=10)]
    small = Directory(msgspec.structs.replace(SNAPSHOT, versions=versions))
    found = request(b'{"model":"m","prompt":[1,2,3,4,5,6],"max_tokens":500}', directory=small)
    assert found.predicted_output_tokens == 4


def test_a_model_that_embeds_generates_next_to_nothing():
    versions = [msgspec.structs.replace(SNAPSHOT.versions[0], task="embed")]
    assert (
        request(directory=Directory(msgspec.structs.replace(SNAPSHOT, versions=versions))).predicted_output_tokens == 1
    )


def test_a_long_prompt_has_blocks_where_there_is_a_choice_of_engines():
    body = b'{"model":"m","messages":"%b"}' % (b"x" * 2 * MIN_BYTES)
    found = request(body)
    assert len(found.prefix_blocks) == 8
    assert found.block_tokens == pytest.approx(128, rel=0.1)
    assert request(body, driver=KnownDriver(engines=1)).prefix_blocks == ()
    assert request().prefix_blocks == ()


def test_a_cache_salt_keeps_a_prompts_blocks_apart():
    salted = b'{"model":"m","prompt":"%b","cache_salt":"s"}' % (b"x" * MIN_BYTES)
    plain = b'{"model":"m","prompt":"%b"}' % (b"x" * MIN_BYTES)
    assert not set(request(salted).prefix_blocks) & set(request(plain).prefix_blocks)


def test_flex_waits_behind_everybody_and_has_no_limit():
    found = request(b'{"model":"m","prompt":"p","service_tier":"flex"}', key="gold")
    assert (found.rank, found.ttft_slo_s, found.tpot_slo_s) == (2, None, None)


def test_priority_is_due_sooner_within_its_own_class():
    found = request(b'{"model":"m","prompt":"p","service_tier":"priority"}')
    assert (found.rank, found.ttft_slo_s, found.weight) == (1, 1.0, 4.0)


@pytest.mark.parametrize("tier", [b'"auto"', b'"default"', b'"no such tier"', b"7", b"null"])
def test_any_other_tier_is_the_engines_to_judge(tier):
    found = request(b'{"model":"m","prompt":"p","service_tier":%b}' % tier)
    assert (found.rank, found.ttft_slo_s, found.weight) == (1, 2.0, None)


@pytest.mark.parametrize(("objective", "rank"), [(b"batch", 2), (b"standard", 1), (b"gold", 1), (b"unknown", 1)])
def test_an_objective_may_name_a_class_that_is_not_above_the_tenants(objective, rank):
    assert request(x_gateway_inference_objective=objective).rank == rank


def test_a_deadline_counts_from_the_arrival():
    assert request(x_request_deadline_ms=b"1500").deadline_at == 101.5


@pytest.mark.parametrize("value", [b"0", b"-5", b"1.5", b"soon", b"", b"9" * 40, b"\xff"])
def test_an_unsound_deadline_is_a_400_that_names_the_header(value):
    with pytest.raises(GatewayError) as raised:
        terms(x_request_deadline_ms=value)
    assert (raised.value.status, raised.value.code, raised.value.param) == (
        400,
        "invalid_header",
        "x-request-deadline-ms",
    )


def test_a_workflow_is_its_tenants_own():
    found = request(x_workflow_id=b"w", x_workflow_deadline_ms=b"9000")
    assert (found.workflow_id, found.deadline_at) == ("standard/w", 109.0)


def test_a_fairness_id_is_passed_on():
    assert terms(x_gateway_inference_fairness_id=b"team").fairness_id == b"team"


def test_a_limit_may_be_loosened_and_not_tightened():
    found = request(x_slo_ttft_ms=b"5000", x_slo_tpot_ms=b"10")
    assert (found.ttft_slo_s, found.tpot_slo_s) == (5.0, 0.15)
