"""Forms of the finance pages. Prices are typed as people quote them and become picodollars exactly."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms

from apps.common.errors import InvalidInputError
from apps.registry.models import Model, ModelVersion
from apps.tenants.models import Tenant
from apps.usage.models import Ownership, PriceEntry
from apps.usage.selectors.prices import get_line_at, get_next_line_at
from apps.usage.services.prices import PRICE_FIELDS
from workers.contracts.snapshot import Price

PICO = Decimal(10) ** 12
MILLION = Decimal(10) ** 6
_ROWS = frozenset({"tenant", "model", "version", "price"})  # of facts, what REST names otherwise


def _usd(label: str, *, places: int, **more: Any) -> forms.DecimalField:
    return forms.DecimalField(label=label, min_value=0, max_digits=24, decimal_places=places, **more)


def _from(help_text: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"placeholder": "2026-12-01 00:00"})
    return forms.DateTimeField(label="In force from", required=False, widget=widget, help_text=help_text)


class LineForm(forms.Form):
    """A line that begins at a time: of a price, a discount or an accelerator's price."""

    def facts(self, moment: datetime) -> dict[str, Any]:
        """For the service; `moment` stands for a time that was left empty."""
        raise NotImplementedError

    def before(self, since: datetime) -> dict[str, Any]:  # noqa: ARG002 - for those that know
        """By field, what holds at that time until the line is in the book."""
        return {}

    def until(self, since: datetime) -> datetime | None:  # noqa: ARG002 - likewise
        """When a line that is there already takes its place."""
        return None

    def as_api(self, moment: datetime) -> dict[str, Any]:
        """The same as the body of a REST call."""
        facts, data = self.facts(moment), self.cleaned_data
        ids = {f"{name}_id": str(data[name].pk) for name in ("version", "model", "tenant") if data.get(name)}
        plain = {name: value for name, value in facts.items() if name not in _ROWS and value not in (None, "")}
        return ids | plain | {"effective_from": facts["effective_from"].isoformat()}


class PriceForm(LineForm):
    """The smallest price is a picodollar a token: six decimals of a price per million tokens."""

    model = forms.ModelChoiceField(
        Model.objects.all(), required=False, empty_label="–", help_text="Every version of it."
    )
    version = forms.ModelChoiceField(
        ModelVersion.objects.select_related("model"),
        required=False,
        empty_label="–",
        help_text="Or one version; its own price goes before its model's.",
    )
    input_usd = _usd("Input, USD per million tokens", places=6)
    cached_input_usd = _usd("Cached input, USD per million tokens", places=6)
    output_usd = _usd("Output, USD per million tokens", places=6)
    request_usd = _usd("Each request, USD", places=12, initial=0)
    batch_discount_percent = forms.DecimalField(
        label="Batch discount, %",
        min_value=0,
        max_value=100,
        decimal_places=2,
        initial=0,
        help_text="For the batch class.",
    )
    effective_from = _from("UTC; empty is now. What was charged before stays, until a re-rating.")

    def price(self) -> Price:
        data = self.cleaned_data
        per_token = {
            f"{name}_pico_usd": int(data[f"{name}_usd"] * PICO / MILLION)
            for name in ("input", "cached_input", "output")
        }
        return Price(**per_token, request_pico_usd=int(data["request_usd"] * PICO))

    def facts(self, moment: datetime) -> dict[str, Any]:
        data = self.cleaned_data
        return {
            "model": data["model"],
            "version": data["version"],
            "price": self.price(),
            "batch_discount_bp": int(data["batch_discount_percent"] * 100),
            "effective_from": data["effective_from"] or moment,
        }

    def before(self, since: datetime) -> dict[str, Any]:
        data = self.cleaned_data
        if bool(data["version"]) == bool(data["model"]):
            return {}
        line = get_line_at(version=data["version"], model=data["model"], at=since)
        return _typed(line) if line else {}

    def until(self, since: datetime) -> datetime | None:
        return get_next_line_at(version=self.cleaned_data["version"], model=self.cleaned_data["model"], after=since)

    def as_api(self, moment: datetime) -> dict[str, Any]:
        return super().as_api(moment) | {name: getattr(self.price(), name) for name in PRICE_FIELDS}


def _typed(line: PriceEntry) -> dict[str, Any]:
    """As the form has it."""
    per_million = {
        f"{name}_usd": f"{getattr(line, f'{name}_pico_usd') * MILLION / PICO:f}"
        for name in ("input", "cached_input", "output")
    }
    return per_million | {
        "request_usd": f"{line.request_pico_usd / PICO:f}",
        "batch_discount_percent": f"{line.batch_discount_bp / 100:g}",
    }


class DiscountForm(LineForm):
    tenant = forms.ModelChoiceField(Tenant.objects.present(), empty_label=None)
    model = forms.ModelChoiceField(Model.objects.all(), required=False, empty_label="Every model")
    percent = forms.DecimalField(
        label="Discount, %", min_value=0, max_value=100, decimal_places=2, help_text="0 ends a discount."
    )
    effective_from = _from("UTC; empty is now.")

    def facts(self, moment: datetime) -> dict[str, Any]:
        data = self.cleaned_data
        return {
            "tenant": data["tenant"],
            "model": data["model"],
            "discount_bp": int(data["percent"] * 100),
            "effective_from": data["effective_from"] or moment,
        }


class AcceleratorPriceForm(LineForm):
    accelerator_name = forms.CharField(
        max_length=200,
        required=False,
        label="Accelerator",
        help_text="A part of its name, such as H100; empty is every one.",
    )
    ownership = forms.ChoiceField(
        choices=Ownership.choices, help_text="A spot one costs only while its node is online."
    )
    hour_usd = _usd("An hour, USD", places=12)
    effective_from = _from("UTC; empty is now. It counts for all hours from then on.")
    source = forms.CharField(max_length=300, required=False, help_text="Where the figure is from.")

    def facts(self, moment: datetime) -> dict[str, Any]:
        data = self.cleaned_data
        return {
            "accelerator_name": data["accelerator_name"],
            "ownership": data["ownership"],
            "hour_pico_usd": int(data["hour_usd"] * PICO),
            "effective_from": data["effective_from"] or moment,
            "source": data["source"],
        }


class ReratingForm(forms.Form):
    start = forms.DateTimeField(label="From", help_text="UTC, such as 2026-11-01 00:00")
    end = forms.DateTimeField(label="To", required=False, help_text="UTC; empty is now.")
    reason = forms.CharField(max_length=300, help_text="What auditors will read.")


class BudgetForm(forms.Form):
    name = forms.CharField(max_length=100)
    tenant = forms.ModelChoiceField(Tenant.objects.none(), required=False, empty_label="Everybody together")
    amount_usd = forms.DecimalField(
        label="Amount a month, USD", min_value=Decimal("0.01"), max_digits=20, decimal_places=2
    )
    public_model = forms.CharField(max_length=200, required=False, label="Model", help_text="Empty is every model.")
    zone = forms.CharField(max_length=64, initial="UTC", label="Time zone", help_text="Whose calendar months.")
    thresholds = forms.CharField(initial="50, 80, 100", help_text="Per cent of the amount, with commas.")
    mail_to = forms.CharField(required=False, help_text="Addresses, with commas.")
    webhook_url = forms.CharField(max_length=500, required=False, label="Webhook", help_text="https://…, signed.")

    def __init__(self, *args: Any, tenants: Any, is_for_all: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["tenant"]
        field.queryset = tenants  # type: ignore[attr-defined]
        if not is_for_all:
            field.required, field.empty_label = True, None  # type: ignore[attr-defined]

    def facts(self) -> dict[str, Any]:
        data = self.cleaned_data
        names = ("name", "tenant", "amount_usd", "public_model", "zone", "webhook_url")
        return {
            **{name: data[name] for name in names},
            "thresholds_percent": _numbers(data["thresholds"]),
            "mail_to": [part.strip() for part in data["mail_to"].split(",") if part.strip()],
        }


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise InvalidInputError(
            "thresholds are whole numbers", fields={"thresholds": "are whole numbers, with commas between"}
        ) from error
