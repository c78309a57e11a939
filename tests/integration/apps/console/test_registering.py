"""Models, versions and routes are made in the console, each shown before it is done, each refusal beside its field."""

import json

import pytest

from apps.registry.models import Model, ModelVersion
from apps.routing.models import Route
from tests.factories.domain import make_node, make_people, make_version
from tests.support import model_configs as configs

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def operator(client):
    client.force_login(make_people().operator)
    return client


def text(response):
    return response.content.decode()


def version_of(**changes):
    return {"label": "v1", "engine": "vllm", "source": "meta/llama", "served_name": "llama"} | changes


def test_a_model_and_its_first_version_are_registered(operator):
    made = operator.post("/models/new/", {"name": "llama", "task": "generate"})
    model = Model.objects.get(name="llama")
    assert made["Location"] == f"/models/{model.pk}/versions/new/"
    registered = operator.post(made["Location"], version_of(confirmed="1", tags="chat, small"))
    version = ModelVersion.objects.get(model=model)
    assert registered["Location"] == f"/models/versions/{version.pk}/"
    assert (version.label, version.tags) == ("v1", ["chat", "small"])


def test_the_next_label_is_one_that_is_free(operator):
    model = make_version("v1").model
    shown = text(operator.get(f"/models/{model.pk}/versions/new/"))
    assert 'name="label" value="v2"' in shown
    assert "&quot;label&quot;: &quot;v2&quot;" in shown


def test_the_fit_is_shown_before_anything_is_registered(operator):
    make_node("g1")
    model = Model.objects.create(name="llama", task="generate", created_at=make_version().created_at)
    shown = text(operator.post(f"/models/{model.pk}/versions/new/", version_of(config=json.dumps(configs.LLAMA3_8B))))
    assert "What a replica needs on each GPU" in shown
    assert "reckoned from its config" in shown
    assert "Register llama:v1" in shown
    assert not ModelVersion.objects.filter(model=model).exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"engine_args": "{nope"}, "This is not JSON"),
        ({"engine_args": "[1]"}, "This is JSON, and no object"),
        ({"engine_args": '{"no_such_option": 1}'}, "no_such_option"),
        ({"label": "a b"}, "Enter a valid"),
        ({"source": ""}, "This field is required"),
        ({"max_context_tokens": "0"}, "greater than or equal to 1"),
        ({"config": '{"model_type": "llama", "hidden_size": "wide"}'}, "hidden_size"),
        ({"served_name": "a\x00b"}, "Null characters are not allowed"),
    ],
)
def test_what_is_wrong_with_a_version_is_said_on_the_form(operator, wrong, said):
    model = Model.objects.create(name="llama", task="generate", created_at=make_version().created_at)
    answer = operator.post(f"/models/{model.pk}/versions/new/", version_of(confirmed="1", **wrong))
    assert (answer.status_code, said in text(answer)) == (200, True)
    assert not ModelVersion.objects.filter(model=model).exists()


def test_a_name_that_is_taken_is_said_on_the_form(operator):
    taken = make_version().model.name
    assert "already exists" in text(operator.post("/models/new/", {"name": taken, "task": "generate"}))
    assert "already exists" in text(
        operator.post(f"/models/{Model.objects.get().pk}/versions/new/", version_of(confirmed="1"))
    )


def test_a_route_is_opened_gets_another_version_and_loses_the_first(operator):
    first, second = make_version("v1"), make_version("v2")
    operator.post("/routes/new/", {"public_name": "chat", "version": first.pk})
    route = Route.objects.get()
    path = f"/routes/{route.pk}/"
    joining = {f"weight_{first.pk}": 100, "newcomer": second.pk, "newcomer_weight": 25}
    assert "not on it" in text(operator.post(path, joining))
    assert route.targets.count() == 1
    operator.post(path, joining | {"confirmed": "1"})
    assert {target.version_id: target.weight for target in route.targets.all()} == {first.pk: 100, second.pk: 25}
    operator.post(
        path, {f"weight_{first.pk}": 100, f"weight_{second.pk}": 25, f"goes_{first.pk}": "on", "confirmed": "1"}
    )
    assert [target.version_id for target in route.targets.all()] == [second.pk]


def test_the_last_version_cannot_be_taken_off(operator):
    version = make_version()
    operator.post("/routes/new/", {"public_name": "chat", "version": version.pk})
    path = f"/routes/{Route.objects.get().pk}/"
    answer = operator.post(path, {f"weight_{version.pk}": 100, f"goes_{version.pk}": "on", "confirmed": "1"})
    assert "A route needs at least one target." in text(answer)
    assert Route.objects.get().targets.count() == 1


def test_the_token_against_forgery_never_stands_in_an_address(operator):
    page = text(operator.get(f"/models/versions/{make_version().pk}/"))
    form = page[page.index('method="get"') :]
    assert 'type="hidden" name="csrfmiddlewaretoken"' not in form[: form.index("</form>")]
