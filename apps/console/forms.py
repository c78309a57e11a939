"""Forms of the console. What a value may be is the domain's to say; a form only gives it a type."""

from datetime import datetime, timedelta
from typing import Any

from django import forms

from apps.quotas.models import MAX_WEIGHT, MIN_WEIGHT, ServiceClass, SLOProfile
from apps.telemetry.policies import MAX_KEPT_DAYS
from apps.tenants.models import Role
from workers.contracts.paths import CLIENT_PATHS

DAY_S = 86_400
MAX_QUEUED = 2**31 - 1
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
    weight = forms.FloatField(
        initial=1.0,
        min_value=MIN_WEIGHT,
        max_value=MAX_WEIGHT,
        help_text="Share of the class among its tenants, relative to the others'.",
    )
    max_queued_requests = forms.IntegerField(
        label="Queue limit",
        initial=1000,
        min_value=0,
        max_value=MAX_QUEUED,
        help_text="Waiting at one gateway; more are refused with 429.",
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
    models = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, help_text="None chosen: every model."
    )
    paths = forms.MultipleChoiceField(
        choices=[(path, path) for path in CLIENT_PATHS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: every path.",
    )
    networks = forms.CharField(
        required=False,
        max_length=3500,
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": "10.0.0.0/8, 2001:db8::/32"}),
        help_text="Addresses or ranges it may be used from; none: from anywhere.",
    )
    lifetime_s = forms.TypedChoiceField(
        choices=KEY_LIFETIMES, coerce=int, empty_value=None, required=False, label="Expires after"
    )

    def __init__(self, *args: Any, models: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["models"].choices = [(name, name) for name in models]  # type: ignore[attr-defined]

    def clean_networks(self) -> list[str]:
        text: str = self.cleaned_data["networks"]
        return text.replace(",", " ").split()


class ScaleForm(forms.Form):
    replica_count = forms.IntegerField(label="Replicas", min_value=0)


class SignInForm(forms.Form):
    name = forms.CharField(
        max_length=254,
        label="User name or email",
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": ""}),
    )
    password = forms.CharField(
        max_length=200, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=50,
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "autofocus": ""}),
        help_text="The six digits your device shows now, or one of your recovery codes.",
    )


class ConfirmForm(forms.Form):
    """The code is asked for where there is a device."""

    password = forms.CharField(
        max_length=200, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )
    code = CodeForm.base_fields["code"]

    def __init__(self, *args: Any, has_device: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not has_device:
            del self.fields["code"]


class PasswordForm(forms.Form):
    password = forms.CharField(
        max_length=200,
        strip=False,
        label="New password",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 10 characters.",
    )


class NewPasswordForm(PasswordForm):
    """After a reset."""


class ResetForm(forms.Form):
    name = forms.CharField(max_length=254, label="User name or email")


class JoinForm(PasswordForm):
    username = forms.CharField(max_length=150, label="User name", help_text="For signing in; without an @.")
    field_order = ["username", "password"]


class InviteForm(forms.Form):
    email = forms.EmailField(help_text="The link goes there, works once, and for 7 days.")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.DEVELOPER)


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)


class ServiceAccountForm(forms.Form):
    name = forms.SlugField(max_length=100, help_text="What will use it: letters, digits and dashes.")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.VIEWER)


class ChildForm(forms.Form):
    name = forms.SlugField(
        max_length=63, help_text="Lower-case letters, digits and dashes. It cannot be changed later."
    )


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="What will use it.")
    scopes = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, help_text="What it may do at most.")
    lifetime_s = forms.TypedChoiceField(
        choices=KEY_LIFETIMES, coerce=int, empty_value=None, required=False, label="Expires after"
    )

    def __init__(self, *args: Any, scopes: list[str], now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.now = now
        self.fields["scopes"].choices = [(scope, scope) for scope in scopes if scope != "open"]  # type: ignore[attr-defined]
        self.fields["scopes"].initial = ["self"]

    def values(self) -> dict[str, Any]:
        lifetime_s = self.cleaned_data["lifetime_s"]
        expires_at = self.now + timedelta(seconds=lifetime_s) if lifetime_s else None
        return {"name": self.cleaned_data["name"], "scopes": self.cleaned_data["scopes"], "expires_at": expires_at}


class UserForm(forms.Form):
    email = forms.EmailField(required=False, help_text="Letters go there, and it signs in. Empty: neither.")
    is_platform_admin = forms.BooleanField(required=False, label="Platform admin")
    is_operator = forms.BooleanField(required=False, label="Operator")
    is_finance = forms.BooleanField(required=False, label="Finance")
    is_active = forms.BooleanField(required=False, label="May sign in")


class RotateForm(forms.Form):
    overlap_s = forms.TypedChoiceField(
        choices=(("0", "Not at all"), ("3600", "1 hour"), (str(DAY_S), "1 day"), (str(7 * DAY_S), "7 days")),
        coerce=int,
        initial=str(DAY_S),
        label="The old key works on for",
    )


class DeployForm(forms.Form):
    """`wanted` is what the domain calls it: what was left empty is not asked for."""

    name = forms.SlugField(max_length=63, required=False, help_text="What the deployment is called.")
    replica_count = forms.IntegerField(label="Replicas", min_value=1, max_value=64, initial=1)
    max_running_requests = forms.IntegerField(label="Requests at once", min_value=1, initial=64)
    on = forms.ChoiceField(label="Runs on", choices=[(each, each) for each in ("auto", "gpu", "mig", "cpu")])
    tensor_parallel = forms.IntegerField(label="Tensor parallel", min_value=1, max_value=64, required=False)
    pipeline_parallel = forms.IntegerField(
        label="Pipeline parallel",
        min_value=1,
        max_value=64,
        required=False,
        help_text="On one node where they fit.",
    )
    memory_share = forms.FloatField(
        label="Share of each GPU", min_value=0.01, max_value=1, required=False, help_text="Empty: GPUs of its own."
    )
    gpu_models = forms.CharField(label="GPU models", required=False, help_text="H100, H200; empty allows all.")
    strategy = forms.ChoiceField(label="Over nodes", choices=[("spread", "spread"), ("pack", "pack tightly")])

    @property
    def wanted(self) -> dict[str, Any]:
        found = self.cleaned_data
        names = ("on", "tensor_parallel", "pipeline_parallel", "memory_share", "strategy")
        asked = {name: found[name] for name in names if found.get(name)}
        models = [each.strip() for each in found.get("gpu_models", "").split(",") if each.strip()]
        return {
            "replica_count": found["replica_count"],
            "max_running_requests": found["max_running_requests"],
            "requirements": asked | ({"gpu_models": models} if models else {}),
        }


class RemovalForm(forms.Form):
    """The name is typed, as nothing brings a removed tenant back."""

    def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"] = forms.CharField(label=f"Type {name} to remove it", max_length=63)
        self._name = name

    def clean_name(self) -> str:
        if self.cleaned_data["name"].strip() != self._name:
            raise forms.ValidationError("That is not its name.")
        return self._name


class PromptsForm(forms.Form):
    days = forms.IntegerField(
        label="Kept for, days", min_value=1, max_value=MAX_KEPT_DAYS, initial=7, help_text="Each is deleted afterwards."
    )


class LabelsForm(forms.Form):
    labels = forms.CharField(required=False, help_text="name=value, separated by spaces.")

    def clean_labels(self) -> dict[str, str]:
        pairs = [pair.partition("=") for pair in self.cleaned_data["labels"].split()]
        return {name: value for name, _, value in pairs}
