"""The price book: what is charged, to whom for less, what accelerators cost. A change is shown before it is made."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_GET, require_http_methods

from apps.console.access import ConsoleRequest, page
from apps.console.finance_forms import AcceleratorPriceForm, DiscountForm, PriceForm
from apps.console.policies.measures import UNKNOWN
from apps.console.policies.snippets import api_call
from apps.console.rendering import attempt, render_page
from apps.tenants.matrix import Permission
from apps.usage.models import AcceleratorPrice, PriceEntry, TenantDiscount
from apps.usage.policies.pricing import usd_from_pico
from apps.usage.selectors.accelerators import list_accelerator_prices
from apps.usage.selectors.prices import list_discounts, list_prices
from apps.usage.services.accelerators import set_accelerator_price
from apps.usage.services.prices import set_discount, set_price

SHOWN_LINES = 200
TOKENS_PER_PRICE = 1_000_000
BP_PER_PERCENT = 100
Save = Callable[..., PriceEntry | TenantDiscount | AcceleratorPrice]


@page(Permission.SET_PRICES)
@require_GET
def price_book(request: ConsoleRequest) -> HttpResponseBase:
    moment = now()
    context = {
        "prices": [_price_row(entry, moment) for entry in list_prices()[:SHOWN_LINES]],
        "discounts": [_discount_row(entry) for entry in list_discounts(actor=request.actor)[:SHOWN_LINES]],
        "accelerators": [
            {"line": line, "hour_usd": usd_from_pico(line.hour_pico_usd)}
            for line in list_accelerator_prices()[:SHOWN_LINES]
        ],
    }
    return render_page(request, "price_book.html", context)


def _price_row(entry: PriceEntry, moment: datetime) -> dict[str, Any]:
    amounts = {
        f"{name}_usd": usd_from_pico(getattr(entry, f"{name}_pico_usd") * TOKENS_PER_PRICE)
        for name in ("input", "cached_input", "output")
    }
    is_future = entry.effective_from > moment
    return {
        "entry": entry,
        "subject": str(entry.version or entry.model),
        "state": "pending" if is_future else "active",
        "request_usd": usd_from_pico(entry.request_pico_usd),
        "batch_percent": entry.batch_discount_bp / BP_PER_PERCENT,
        **amounts,
    }


def _discount_row(entry: TenantDiscount) -> dict[str, Any]:
    return {"entry": entry, "percent": entry.discount_bp / BP_PER_PERCENT}


@page(Permission.SET_PRICES)
@require_http_methods(["GET", "POST"])
def price_new(request: ConsoleRequest) -> HttpResponseBase:
    form = PriceForm(request.POST or None)
    return _line(request, form, set_price, title="New price", path="/api/v1/prices/")


@page(Permission.SET_PRICES)
@require_http_methods(["GET", "POST"])
def discount_new(request: ConsoleRequest) -> HttpResponseBase:
    form = DiscountForm(request.POST or None)
    return _line(request, form, set_discount, title="New discount", path="/api/v1/discounts/")


@page(Permission.SET_PRICES)
@require_http_methods(["GET", "POST"])
def accelerator_price_new(request: ConsoleRequest) -> HttpResponseBase:
    form = AcceleratorPriceForm(request.POST or None)
    return _line(
        request, form, set_accelerator_price, title="New accelerator price", path="/api/v1/accelerator-prices/"
    )


def _line(
    request: ConsoleRequest,
    form: PriceForm | DiscountForm | AcceleratorPriceForm,
    save: Save,
    *,
    title: str,
    path: str,
) -> HttpResponseBase:
    """Posted once it shows the line; posted again with `confirmed` it is in the book."""
    moment = now()
    if "confirmed" in request.POST and form.is_valid():
        saved = attempt(form, lambda: save(actor=request.actor, now=moment, **form.facts(moment)))
        if saved is not None:
            messages.success(request, f"In the book: {saved}.")
            return redirect("console:price_book")
    context = {
        "form": form,
        "title": title,
        "changes": _changes(form, moment) if form.is_valid() else None,
        "api": api_call(web_url=settings.WEB_URL, method="POST", path=path, body={"see": "/api/docs/"}),
    }
    return render_page(request, "price_line.html", context)


def _changes(form: Form, moment: datetime) -> list[dict[str, Any]]:
    shown = {**form.cleaned_data, "effective_from": form.cleaned_data["effective_from"] or moment}
    labels = {name: field.label or name.replace("_", " ").capitalize() for name, field in form.fields.items()}
    return [
        {"label": labels[name], "was": UNKNOWN, "becomes": value}
        for name, value in shown.items()
        if value not in (None, "")
    ]
