"""Forms of the console. What a value may be is the domain's to say; a form only gives it a type."""

from typing import Any
from uuid import UUID

from django import forms

from apps.limits.models import Kind, Scope
from apps.quotas.models import ServiceClass, SLOProfile
from apps.routing.models import RouteTarget
from apps.routing.policies import MAX_WEIGHT
from apps.tenants.models import Role

DAY_S = 86_400
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


class LimitFieldsForm(forms.Form):
    amount = forms.DecimalField(
        min_value=0, max_digits=25, decimal_places=9, help_text="Requests and tokens are counted, cost is in US dollars."
    )
    burst = forms.IntegerField(
        required=False,
        min_value=1,
        help_text="Only per minute: at most so many at once. Empty: the limit holds in any 60 seconds.",
    )
    soft_percent = forms.IntegerField(
        required=False, min_value=1, max_value=100, label="Warn at, %", help_text="In a header, an event and a metric."
    )


class LimitForm(LimitFieldsForm):
    scope = forms.ChoiceField(choices=Scope.choices, label="For whom")
    subject = forms.CharField(
        required=False,
        max_length=256,
        label="Which one",
        help_text="The user's name as clients send it, the key's or member's id, or * for each. Empty for the tenant.",
    )
    public_model = forms.CharField(required=False, max_length=200, label="Model", help_text="Empty: all together.")
    kind = forms.ChoiceField(choices=Kind.choices, label="Of what")
    field_order = ["scope", "subject", "kind", "public_model", "amount", "burst", "soft_percent"]


class RaiseForm(forms.Form):
    amount = forms.DecimalField(min_value=0, max_digits=25, decimal_places=9, label="Raised to")
    hours = forms.IntegerField(min_value=1, max_value=24 * 365, initial=24, label="For so many hours")


class RaiseAskForm(forms.Form):
    limit_id = forms.UUIDField(widget=forms.Select, label="Limit")
    amount = forms.DecimalField(min_value=0, max_digits=25, decimal_places=9, label="Raise it to")
    hours = forms.IntegerField(
        required=False, min_value=1, max_value=24 * 365, label="For so many hours", help_text="Empty: for good."
    )
    reason = forms.CharField(max_length=500, help_text="An operator decides by it.")

    def __init__(self, *args: Any, limits: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["limit_id"].widget.choices = limits  # type: ignore[attr-defined]


class DecisionForm(forms.Form):
    decision = forms.ChoiceField(choices=[("approve", "Approve"), ("decline", "Decline")])
    answer = forms.CharField(required=False, max_length=500, help_text="The tenant reads it.")


class BlockForm(forms.Form):
    scope = forms.ChoiceField(choices=Scope.choices, label="Whom")
    subject = forms.CharField(required=False, max_length=256, label="Which one", help_text="Empty for the tenant.")
    reason = forms.CharField(required=False, max_length=200, help_text="Whoever is blocked is told.")
    hours = forms.IntegerField(
        required=False, min_value=1, max_value=24 * 365, label="For so many hours", help_text="Empty: until it is lifted."
    )


class LimitSettingsForm(forms.Form):
    time_zone = forms.CharField(max_length=64, label="Time zone", help_text="Days and months begin there.")
    degraded = forms.ChoiceField(
        choices=[("share", "Each gateway admits its share"), ("refuse", "Refuse")],
        label="While nobody can say what is left",
    )
