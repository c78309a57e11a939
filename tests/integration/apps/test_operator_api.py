"""What operators alone may do, and that bad input is answered and never breaks the server."""

import json

import pytest
from django.core.management import call_command

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.deployments.models import NodeDesired, Replica
from apps.placement.services.loop import reconcile
from apps.routing.models import Route
from apps.routing.services.routes import create_route
from tests.factories.domain import NOW, make_deployment, make_node, make_version

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

LISTS = ["models", "nodes", "deployments", "routes", "service-classes", "slo-profiles", "snapshot", "overview"]


@pytest.mark.parametrize("name", LISTS)
def test_the_platform_is_the_operators(people, as_user, name):
    path = f"/api/v1/{name}/"
    assert as_user(people.operator).get(path).status_code == 200
    for user in (people.owner, people.teammate, people.stranger):
        assert as_user(user).get(path).status_code == 403
    sees_what_it_prices = name == "models"
    assert as_user(people.finance).get(path).status_code == (200 if sees_what_it_prices else 403)


@pytest.fixture
def operator(people, as_user):
    return as_user(people.operator)


def test_a_platform_team_sets_everything_up_over_rest(operator):
    model = operator.post("/api/v1/models/", {"name": "demo-chat", "task": "generate"}).json()
    engine = {"engine": "fake", "source": "fake", "served_name": "demo-chat", "engine_args": {"time_scale": 0.5}}
    version = operator.post(f"/api/v1/models/{model['id']}/versions/", {"label": "v1"} | engine).json()
    node = operator.post("/api/v1/nodes/", {"name": "n1"})
    assert node.status_code == 201
    assert node.json()["agent_token"].startswith("tya-")
    deployment = operator.post("/api/v1/deployments/", {"name": "d", "version_id": version["id"], "replica_count": 2})
    assert deployment.status_code == 201
    targets = [{"version_id": version["id"], "weight": 1}]
    route = operator.post("/api/v1/routes/", {"public_name": "demo-chat", "targets": targets})
    target = {"version_id": version["id"], "version": "demo-chat:v1", "weight": 1, "alternative_rank": None}
    assert route.json()["targets"] == [target]
    assert operator.get(f"/api/v1/deployments/{deployment.json()['id']}/replicas/").json()["results"] == []


def test_patching_a_routes_weights_changes_and_audits_them(operator, people):
    one, two = make_version("v1"), make_version("v2")
    route = create_route(actor=SYSTEM, public_name="demo-chat", weights={one.pk: 90, two.pk: 10}, now=NOW)
    targets = [{"version_id": str(one.pk), "weight": 50}, {"version_id": str(two.pk), "weight": 50}]
    response = operator.patch(f"/api/v1/routes/{route.pk}/", {"targets": targets})
    assert [target["weight"] for target in response.json()["targets"]] == [50, 50]
    entry = AuditEntry.objects.filter(action="route.weights_changed").get()
    assert entry.actor_id == people.operator.pk
    assert entry.before == {"demo-chat:v1": 90, "demo-chat:v2": 10}
    assert entry.after == {"demo-chat:v1": 50, "demo-chat:v2": 50}


def test_a_route_says_which_versions_stand_in_and_in_which_order(operator):
    one, two, three = make_version("v1"), make_version("v2"), make_version("v3")
    targets = [{"version_id": str(v.pk), "weight": weight} for v, weight in ((one, 1), (two, 0), (three, 0))]
    new = {"public_name": "demo-chat", "targets": targets, "alternatives": [str(three.pk), str(two.pk)]}
    route = operator.post("/api/v1/routes/", new).json()
    assert [target["alternative_rank"] for target in route["targets"]] == [None, 2, 1]
    path = f"/api/v1/routes/{route['id']}/"
    kept = operator.patch(path, {"targets": targets}).json()
    assert [target["alternative_rank"] for target in kept["targets"]] == [None, 2, 1]
    turned = operator.patch(path, {"targets": targets, "alternatives": [str(two.pk), str(three.pk)]}).json()
    assert [target["alternative_rank"] for target in turned["targets"]] == [None, 1, 2]
    assert AuditEntry.objects.filter(action="route.weights_changed").first().after["alternatives"] == [
        "demo-chat:v2", "demo-chat:v3",
    ]  # fmt: skip
    for unsound in ([str(two.pk)] * 2, [route["id"]], ["x"]):
        assert operator.patch(path, {"targets": targets, "alternatives": unsound}).status_code == 400
    none = operator.patch(path, {"targets": targets, "alternatives": []}).json()
    assert [target["alternative_rank"] for target in none["targets"]] == [None, None, None]


def test_a_route_takes_no_weights_that_send_nothing_and_stays_as_it_was(operator):
    version = make_version()
    route = create_route(actor=SYSTEM, public_name="demo-chat", weights={version.pk: 1}, now=NOW)
    path = f"/api/v1/routes/{route.pk}/"
    for targets in (
        [],
        [{"version_id": str(version.pk), "weight": 0}],
        [{"version_id": str(version.pk), "weight": -1}],
    ):
        assert operator.patch(path, {"targets": targets}).status_code == 400
    twice = [{"version_id": str(version.pk), "weight": 1}] * 2
    assert operator.patch(path, {"targets": twice}).status_code == 400
    unknown = [{"version_id": str(route.pk), "weight": 1}]
    assert operator.patch(path, {"targets": unknown}).status_code == 400
    assert [target.weight for target in Route.objects.get().targets.all()] == [1]


def test_versions_of_different_tasks_do_not_share_a_route(operator):
    chat = make_version()
    model = operator.post("/api/v1/models/", {"name": "demo-embed", "task": "embed"}).json()
    engine = {"label": "v1", "engine": "fake", "source": "fake", "served_name": "e"}
    embed = operator.post(f"/api/v1/models/{model['id']}/versions/", engine).json()
    targets = [{"version_id": str(chat.pk), "weight": 1}, {"version_id": embed["id"], "weight": 1}]
    assert operator.post("/api/v1/routes/", {"public_name": "mixed", "targets": targets}).status_code == 409
    assert not Route.objects.exists()


def test_a_name_that_is_taken_is_a_conflict_with_its_field(operator):
    operator.post("/api/v1/models/", {"name": "m", "task": "generate"})
    again = operator.post("/api/v1/models/", {"name": "m", "task": "generate"})
    assert again.status_code == 409
    assert again.json()["fields"].keys() == {"name"}


def test_cordon_and_scale_are_patches(operator):
    node, deployment = make_node(), make_deployment(make_version())
    assert operator.patch(f"/api/v1/nodes/{node.pk}/", {"is_cordoned": True}).json()["is_cordoned"] is True
    scaled = operator.patch(f"/api/v1/deployments/{deployment.pk}/", {"replica_count": 3})
    assert scaled.json()["replica_count"] == 3


def test_a_restart_is_asked_of_the_node_that_runs_the_replica(operator, django_capture_on_commit_callbacks):
    node = make_node()
    make_deployment(make_version())
    reconcile(holder="test", now=NOW)
    replica = Replica.objects.get()
    with django_capture_on_commit_callbacks(execute=True):
        assert operator.post(f"/api/v1/replicas/{replica.pk}/restart/").status_code == 202
    reconcile(holder="test", now=NOW)
    assert json.loads(NodeDesired.objects.get(node=node).body)["replicas"][0]["incarnation"] == 1
    assert AuditEntry.objects.filter(action="replica.restart_asked").exists()


def test_a_replica_that_is_nowhere_cannot_be_restarted(operator):
    make_deployment(make_version())
    reconcile(holder="test", now=NOW)
    assert operator.post(f"/api/v1/replicas/{Replica.objects.get().pk}/restart/").status_code == 409


BAD_BODIES = [
    b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"name": null}', b'{"name": {}}', b'{"name": "\\u0000"}',
    b'{"name": "\\ud800"}', b'{"name": "' + b"x" * 5000 + b'"}', b"[" * 50_000, b"\xff\xfe",
    b'{"name": "", "rank": 99999999999999999999, "ttft_ms": 1e400, "weight": NaN}',
    b'{"name": "", "rank": -1, "ttft_ms": -5, "tpot_ms": 0, "replica_count": 1000000}',
    b'{"name": "", "task": "x", "version_id": "nope", "tenant_id": 7, "targets": {"a": 1}, "public_name": []}',
]  # fmt: skip
DOORS = [
    "models", "nodes", "deployments", "routes", "service-classes", "slo-profiles", "tenants", "api-keys",
    "playground-keys", "service-tokens", "prices",
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[:40])
def test_bad_input_is_answered_with_a_problem(operator, door, body):
    response = operator.generic("POST", f"/api/v1/{door}/", body, content_type="application/json")
    assert 400 <= response.status_code < 500
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "query",
    [
        "start=yesterday", "start=0001-01-01&end=9999-12-31", "end=2026-01-01&start=2026-02-01", "zone=Mars/Base",
        "zone=../../etc/passwd", "tenant=7", "cursor=xx", "cursor=cD1hYmM%3D", "page_size=-1", "group_by=password",
        "group_by=", "model=%00", "start=9999-12-31T23:59:59-23:59&end=9999-12-31", "zone=%00",
    ],
)  # fmt: skip
def test_bad_questions_about_usage_are_answered_below_500(operator, query):
    for path in ("usage/records/", "usage/report/", "usage/report.csv", "usage/records.csv"):
        assert operator.get(f"/api/v1/{path}?{query}").status_code < 500


def test_an_unknown_path_and_an_unknown_id_are_problems(operator):
    for path in ("/api/v1/nothing/", "/api/v2/", "/api/v1/nodes/00000000-0000-0000-0000-000000000000/"):
        response = operator.get(path)
        assert response.status_code == 404
        assert response.json()["code"] == "not_found"


def test_the_schema_names_everything_once_and_says_that_errors_are_problems(tmp_path):
    written = tmp_path / "schema.json"
    call_command("spectacular", format="openapi-json", file=str(written), validate=True, fail_on_warn=True)
    paths = json.loads(written.read_text())["paths"]
    answers = [answer for path in paths.values() for name, answer in path.items() if name != "parameters"]
    assert answers
    assert all("application/problem+json" in answer["responses"]["4XX"]["content"] for answer in answers)


@pytest.mark.parametrize(
    "path", ["/api/v1/models/", "/api/v1/usage/records.csv", "/audit.csv", "/overview/", "/nothing"]
)
def test_no_browser_or_proxy_keeps_an_answer(operator, path):
    assert operator.get(path).headers["Cache-Control"] == "no-store"


def test_what_nobody_foresaw_is_a_problem_for_programs_and_a_page_for_people(operator, monkeypatch):
    monkeypatch.setattr("apps.registry.api.selectors", None)
    operator.raise_request_exception = False
    for_programs = operator.get("/api/v1/models/")
    assert (for_programs.status_code, for_programs.headers["Content-Type"]) == (500, "application/problem+json")
    assert for_programs.json()["code"] == "internal"
    monkeypatch.setattr("apps.console.views.serving.render_page", None)
    for_people = operator.get("/models/")
    assert (for_people.status_code, for_people.headers["Content-Type"]) == (500, "text/html; charset=utf-8")


def test_the_schema_is_served_and_its_page_needs_no_other_host(client, db):
    schema = client.get("/api/schema/", headers={"Accept": "application/json"})
    assert "/api/v1/routes/{route_id}/" in json.loads(schema.content)["paths"]
    page = client.get("/api/docs/").content.decode()
    assert "/static/drf_spectacular_sidecar/" in page
    assert "https://" not in page
    assert page.count("<script>") == 0
