"""Forms of limits, blocks and raises."""

from typing import Any

from django import forms

from apps.limits.models import Kind, Scope

MAX_HOURS = 24 * 365


def offer_scopes(form: forms.Form, *, is_operator: bool) -> None:
    """A tenant as a whole is limited and blocked by operators only."""
    offered = [(scope, label) for scope, label in Scope.choices if is_operator or scope != Scope.TENANT]
    form.fields["scope"].choices = offered  # type: ignore[attr-defined]


class LimitFieldsForm(forms.Form):
    amount = forms.DecimalField(
        min_value=0,
        max_digits=25,
        decimal_places=9,
        help_text="Requests and tokens are counted, cost is in US dollars.",
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
        widget=forms.TextInput(attrs={"list": "subjects"}),
        help_text="The user's name as clients send it, a key or member of the list, or * for each.",
    )
    public_model = forms.CharField(required=False, max_length=200, label="Model", help_text="Empty: all together.")
    kind = forms.ChoiceField(choices=Kind.choices, label="Of what")
    field_order = ["scope", "subject", "kind", "public_model", "amount", "burst", "soft_percent"]

    def __init__(self, *args: Any, is_operator: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_scopes(self, is_operator=is_operator)


class RaiseForm(forms.Form):
    amount = forms.DecimalField(min_value=0, max_digits=25, decimal_places=9, label="Raised to")
    hours = forms.IntegerField(min_value=1, max_value=MAX_HOURS, initial=24, label="For so many hours")


class RaiseAskForm(forms.Form):
    limit_id = forms.UUIDField(widget=forms.Select, label="Limit")
    amount = forms.DecimalField(min_value=0, max_digits=25, decimal_places=9, label="Raise it to")
    hours = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_HOURS, label="For so many hours", help_text="Empty: for good."
    )
    reason = forms.CharField(max_length=500, help_text="An operator decides by it.")

    def __init__(self, *args: Any, limits: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["limit_id"].widget.choices = limits


class DecisionForm(forms.Form):
    decision = forms.ChoiceField(choices=[("approve", "Approve"), ("decline", "Decline")])
    answer = forms.CharField(required=False, max_length=500, help_text="The tenant reads it.")


class BlockForm(forms.Form):
    scope = forms.ChoiceField(choices=Scope.choices, label="Whom")
    subject = forms.CharField(
        required=False,
        max_length=256,
        label="Which one",
        widget=forms.TextInput(attrs={"list": "subjects"}),
        help_text="The user's name as clients send it, or a key or member from the list. Empty for the tenant.",
    )
    reason = forms.CharField(required=False, max_length=200, help_text="Whoever is blocked is told.")
    hours = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_HOURS,
        label="For so many hours",
        help_text="Empty: until it is lifted.",
    )

    def __init__(self, *args: Any, is_operator: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_scopes(self, is_operator=is_operator)


class LimitSettingsForm(forms.Form):
    time_zone = forms.CharField(max_length=64, label="Time zone", help_text="Days and months begin there.")
    degraded = forms.ChoiceField(
        choices=[("share", "Each gateway admits its share"), ("refuse", "Refuse")],
        label="While nobody can say what is left",
    )
