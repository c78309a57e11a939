"""Forms of the console. What a value may be is the domain's to say; a form only gives it a type."""

from typing import Any, cast
from uuid import UUID

from django import forms

from apps.quotas.models import ServiceClass, SLOProfile
from apps.routing.models import RouteTarget
from apps.routing.policies import MAX_WEIGHT
from apps.tenants.models import Role
from workers.simulator.experiments import MAX_REPLICAS, POLICIES, Experiment, list_engines, list_traces

DAY_S = 86_400
USAGE_RECORDS = "usage"
KEY_LIFETIMES = (
    ("", "Never"),
    (str(7 * DAY_S), "7 days"),
    (str(30 * DAY_S), "30 days"),
    (str(90 * DAY_S), "90 days"),
    (str(365 * DAY_S), "1 year"),
)


class PolicyForm(forms.Form):
    service_class = forms.ModelChoiceField(
        ServiceClass.objects.all(), empty_label=None, help_text="Classes are served in strict order; rank 0 goes first."
    )
    slo_profile = forms.ModelChoiceField(
        SLOProfile.objects.all(),
        label="SLO profile",
        empty_label=None,
        help_text="The latency this tenant is promised.",
    )
    weight = forms.FloatField(initial=1.0, help_text="Share of the class among its tenants, relative to the others'.")
    max_queued_requests = forms.IntegerField(
        label="Queue limit", initial=1000, help_text="Waiting at one gateway; more are refused with 429."
    )


class TenantForm(PolicyForm):
    name = forms.CharField(
        max_length=63, help_text="Lower-case letters, digits and dashes. It cannot be changed later."
    )
    field_order = ["name", "service_class", "slo_profile", "weight", "max_queued_requests"]


class MemberForm(forms.Form):
    username = forms.CharField(max_length=150, label="User name", help_text="For signing in; without an @.")
    email = forms.EmailField(required=False, help_text="Optional; signing in by it works too.")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.DEVELOPER)
    password = forms.CharField(
        widget=forms.PasswordInput, label="First password", help_text="At least 10 characters; hand it over in person."
    )


class KeyForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="What will use it, so that it can be found again.")
    model = forms.ChoiceField(required=False, help_text="Restrict the key to one model, or leave it open.")
    lifetime_s = forms.TypedChoiceField(
        choices=KEY_LIFETIMES, coerce=int, empty_value=None, required=False, label="Expires after"
    )

    def __init__(self, *args: Any, models: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["model"].choices = [("", "Every model"), *((name, name) for name in models)]  # type: ignore[attr-defined]


class ScaleForm(forms.Form):
    replica_count = forms.IntegerField(label="Replicas", min_value=0)


class WeightsForm(forms.Form):
    """A weight per target of a route."""

    def __init__(self, *args: Any, targets: list[RouteTarget], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.targets = targets
        for target in targets:
            widget = forms.NumberInput(attrs={"data-weight": "", "aria-label": f"Weight of {target.version}"})
            self.fields[_weight_name(target)] = forms.IntegerField(
                min_value=0, max_value=MAX_WEIGHT, initial=target.weight, widget=widget
            )

    @property
    def weights(self) -> dict[UUID, int]:
        return {target.version_id: self.cleaned_data[_weight_name(target)] for target in self.targets}


def _weight_name(target: RouteTarget) -> str:
    return f"weight_{target.version_id}"


class ExperimentForm(forms.Form):
    """What is tried in the policy lab."""

    trace = forms.ChoiceField(help_text="A recorded or public trace, or what was used on a past day.")
    day = forms.DateField(
        required=False, widget=forms.DateInput(attrs={"type": "date"}), help_text="Of the usage records, in UTC."
    )
    policies = forms.MultipleChoiceField(
        choices=[(name, name) for name in POLICIES], initial=["tokenyard", "least-outstanding"],
        widget=forms.CheckboxSelectMultiple,
    )  # fmt: skip
    replicas = forms.IntegerField(min_value=1, max_value=MAX_REPLICAS, initial=4)
    engine = forms.ChoiceField(help_text="Model, GPU and tensor parallelism; its step times were measured.")
    load = forms.FloatField(
        min_value=0.01, max_value=100, initial=1.0, label="Load or speed",
        help_text="W1 to W5: relative to capacity. Other traces: times as fast as recorded.",
    )  # fmt: skip
    duration_s = forms.FloatField(
        min_value=1, max_value=86_400, initial=300, required=False, label="Duration", help_text="Empty: all of it."
    )
    ttft_slo_s = forms.FloatField(min_value=0.001, max_value=3600, initial=2.0, label="TTFT limit")
    tpot_slo_ms = forms.FloatField(min_value=0.1, max_value=60_000, initial=150.0, label="TPOT limit")
    in_slo_wanted = forms.FloatField(
        min_value=0, max_value=1, initial=0.95, required=False, label="Replicas needed for",
        help_text="The share of requests within their SLO to look for; empty or 0 does not look.",
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        traces = [(USAGE_RECORDS, "Usage records of a day"), *((name, name) for name in list_traces())]
        cast("forms.ChoiceField", self.fields["trace"]).choices = traces
        cast("forms.ChoiceField", self.fields["engine"]).choices = [(name, name) for name in list_engines()]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if values.get("trace") == USAGE_RECORDS and not values.get("day"):
            self.add_error("day", "Choose a day.")
        return values

    def experiment(self) -> Experiment:
        values = self.cleaned_data
        trace = f"usage:{values['day'].isoformat()}" if values["trace"] == USAGE_RECORDS else values["trace"]
        return Experiment(
            trace=trace,
            policies=tuple(values["policies"]),
            replicas=values["replicas"],
            engine=values["engine"],
            load=values["load"],
            speed=values["load"],
            duration_s=values["duration_s"],
            ttft_slo_s=values["ttft_slo_s"],
            tpot_slo_s=values["tpot_slo_ms"] / 1000,
            in_slo_wanted=values["in_slo_wanted"] or 0.0,
        )
