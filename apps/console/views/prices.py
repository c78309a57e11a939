"""The price book: what is charged, to whom for less, what accelerators cost. A change is shown before it is made."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_safe

from apps.console.access import ConsoleRequest, page
from apps.console.finance_forms import AcceleratorPriceForm, DiscountForm, LineForm, PriceForm
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
@require_safe
def price_book(request: ConsoleRequest) -> HttpResponseBase:
    moment = now()
    context = {
        "prices": _price_rows(list_prices()[:SHOWN_LINES], moment),
        "discounts": [_discount_row(entry) for entry in list_discounts(actor=request.actor)[:SHOWN_LINES]],
        "accelerators": [
            {"line": line, "hour_usd": usd_from_pico(line.hour_pico_usd)}
            for line in list_accelerator_prices()[:SHOWN_LINES]
        ],
    }
    return render_page(request, "price_book.html", context)


def _price_rows(entries: Iterable[PriceEntry], moment: datetime) -> list[dict[str, Any]]:
    """The newest first. One line of each subject is in force; of two from one moment the older never is."""
    rows, replaced, in_force = [], set(), set()
    for entry in entries:
        subject = str(entry.version or entry.model)
        is_future = entry.effective_from > moment
        is_replaced = (subject, entry.effective_from) in replaced or (not is_future and subject in in_force)
        replaced.add((subject, entry.effective_from))
        if not is_future:
            in_force.add(subject)
        state = "superseded" if is_replaced else "pending" if is_future else "active"
        rows.append(_price_row(entry, subject, state))
    return rows


def _price_row(entry: PriceEntry, subject: str, state: str) -> dict[str, Any]:
    amounts = {
        f"{name}_usd": usd_from_pico(getattr(entry, f"{name}_pico_usd") * TOKENS_PER_PRICE)
        for name in ("input", "cached_input", "output")
    }
    return {
        "entry": entry,
        "subject": subject,
        "state": state,
        "request_usd": usd_from_pico(entry.request_pico_usd),
        "batch_percent": entry.batch_discount_bp / BP_PER_PERCENT,
        **amounts,
    }


def _discount_row(entry: TenantDiscount) -> dict[str, Any]:
    return {"entry": entry, "percent": entry.discount_bp / BP_PER_PERCENT}


@page(Permission.SET_PRICES)
@require_http_methods(["GET", "HEAD", "POST"])
def price_new(request: ConsoleRequest) -> HttpResponseBase:
    form = PriceForm(request.POST or None)
    return _line(request, form, set_price, title="New price", path="/api/v1/prices/")


@page(Permission.SET_PRICES)
@require_http_methods(["GET", "HEAD", "POST"])
def discount_new(request: ConsoleRequest) -> HttpResponseBase:
    form = DiscountForm(request.POST or None)
    return _line(request, form, set_discount, title="New discount", path="/api/v1/discounts/")


@page(Permission.SET_PRICES)
@require_http_methods(["GET", "HEAD", "POST"])
def accelerator_price_new(request: ConsoleRequest) -> HttpResponseBase:
    form = AcceleratorPriceForm(request.POST or None)
    return _line(
        request, form, set_accelerator_price, title="New accelerator price", path="/api/v1/accelerator-prices/"
    )


def _line(
    request: ConsoleRequest,
    form: LineForm,
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
        "api": _api_call(form, path, moment) if form.is_valid() else None,
        "until": form.until(form.cleaned_data["effective_from"] or moment) if form.is_valid() else None,
    }
    return render_page(request, "price_line.html", context)


def _api_call(form: LineForm, path: str, moment: datetime) -> str:
    return api_call(web_url=settings.WEB_URL, method="POST", path=path, body=form.as_api(moment))


def _changes(form: LineForm, moment: datetime) -> list[dict[str, Any]]:
    since = form.cleaned_data["effective_from"] or moment
    labels = {name: field.label or name.replace("_", " ").capitalize() for name, field in form.fields.items()}
    was = form.before(since)
    return [
        {"label": labels[name], "was": was.get(name, UNKNOWN), "becomes": value}
        for name, value in {**form.cleaned_data, "effective_from": _utc(since)}.items()
        if value not in (None, "")
    ]


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
