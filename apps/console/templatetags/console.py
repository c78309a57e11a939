"""What templates say in one word: icons, states, figures with units, times, and "–" for what is not known."""

from datetime import UTC, datetime
from typing import Any

from django import template
from django.http import QueryDict
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime, now

from apps.common.ids import read_uuid
from apps.console.policies import measures
from apps.console.policies.measures import UNKNOWN
from apps.console.policies.states import level_of

register = template.Library()

PAGE_MARKS = ("after", "before", "as")
WORDS_OF_THEIR_OWN = {
    "user.signed_in": "signed in",
    "user.sign_in_blocked": "was kept from signing in as",
    # The names of these subjects say what they are: "re-rating 2", "price of demo-chat:v1 from 2026-11-01".
    "rerating.started": "started",
    "rerating.applying": "confirmed",
    "rerating.applied": "finished",
    "rerating.cancelled": "cancelled",
    "price.set": "set",
    "accelerator_price.set": "set",
    "quarantined_record.released": "released",
}
UNREPORTED = {"text": UNKNOWN, "title": "Nothing has been heard of it yet"}


@register.simple_tag
def icon(name: str, size: str = "") -> SafeString:
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#{}"/></svg>',
        f"icon-{size}" if size else "",
        static("vendor/icons/icons.svg"),
        name,
    )


@register.simple_tag
def state(word: str, level: str = "", title: str = "") -> SafeString:
    return format_html(
        '<span class="state" data-state="{}" title="{}">{}</span>',
        level or level_of(word),
        title,
        word.replace("_", " "),
    )


@register.simple_tag(takes_context=True)
def live(context: template.Context, *parts: Any) -> SafeString:
    """A value of the live frame, which the page keeps fresh: `{% live "node" node.pk "running" %}`."""
    key = ".".join(map(str, parts))
    value = context["frame"].values.get(key, UNREPORTED)
    return format_html(
        '<span class="num{}" data-live="{}" title="{}">{}<span class="unit"> {}</span></span>',
        " unknown" if value["text"] == UNKNOWN else "",
        key,
        value.get("title", ""),
        value["text"],
        value.get("unit", ""),
    )


@register.simple_tag(takes_context=True)
def live_state(context: template.Context, *parts: Any) -> SafeString:
    key = ".".join([*map(str, parts), "state"])
    value = context["frame"].values.get(key, UNREPORTED)
    return format_html(
        '<span class="state" data-live="{}" data-state="{}" title="{}">{}</span>',
        key,
        value.get("state", "unknown"),
        value.get("title", ""),
        value["text"],
    )


@register.simple_tag
def unknown(reason: str) -> SafeString:
    return format_html('<span class="unknown" title="{}">–</span>', reason)


@register.simple_tag
def measure(value: float | str | None, unit: str, reason: str = "not reported") -> SafeString:
    """A figure with its unit. `reason` is what the hover of "–" says when the value is not known or not there."""
    if value is None or isinstance(value, str):
        return unknown(reason)
    shown = measures.measure(value, unit)
    return format_html(
        '<span class="num" title="{}">{}{}</span>',
        shown.exact,
        shown.text,
        format_html(' <span class="unit">{}</span>', shown.unit) if shown.unit else "",
    )


@register.simple_tag
def cost(of: Any, unit: str = "usd") -> SafeString:
    """Of a record, or of sums of records. What waits for a price has no cost yet: that is unknown, and not free."""
    waiting = of.is_unpriced if hasattr(of, "is_unpriced") else of.unpriced_count
    if waiting and not of.cost_usd:
        return unknown("no price was in force; it is priced once there is one")
    return measure(of.cost_usd, unit)


@register.simple_tag
def when(at_or_unix_s: datetime | float | None, reason: str = "never") -> SafeString:
    """A relative time that the page keeps fresh, the exact one on hover."""
    if at_or_unix_s is None:
        return unknown(reason)
    at = at_or_unix_s if isinstance(at_or_unix_s, datetime) else datetime.fromtimestamp(at_or_unix_s, UTC)
    return format_html(
        '<time datetime="{}" data-relative title="{}">{}</time>',
        at.isoformat(),
        localtime(at).strftime("%Y-%m-%d %H:%M:%S %Z"),
        measures.ago(now() - at),
    )


@register.simple_tag
def moment(at: datetime | None, reason: str = "never") -> SafeString:
    """To the minute, in the reader's time zone, which is named."""
    if at is None:
        return unknown(reason)
    shown = localtime(at).strftime("%Y-%m-%d %H:%M %Z")
    return format_html('<time class="num" datetime="{}">{}</time>', at.isoformat(), shown)


@register.simple_tag
def plain_measure(value: float, unit: str) -> str:
    return str(measures.measure(value, unit))


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """The page's own query string with some parameters changed; None takes one away."""
    return changed_query(context["request"].GET, changes)


@register.simple_tag(takes_context=True)
def sort_head(context: template.Context, name: str, label: str, classes: str = "") -> SafeString:
    """The head of a column by which `listing` may be sorted: pressed it rises, pressed again it falls."""
    sorting = context["listing"].sorting
    is_here = sorting.name == name
    asked = f"-{name}" if is_here and not sorting.is_falling else name
    order = ("descending" if sorting.is_falling else "ascending") if is_here else "none"
    return format_html(
        '<th scope="col" class="{}" aria-sort="{}"><a class="sort" href="{}">{}{}</a></th>',
        classes,
        order,
        changed_query(context["request"].GET, {"sort": asked, "after": None, "before": None}),
        label,
        format_html(" {}", "↓" if sorting.is_falling else "↑") if is_here else "",
    )


@register.simple_tag(takes_context=True)
def query_with(context: template.Context, name: str, value: str) -> str:
    """The first page of what is left when a filter is that; "" takes the filter away."""
    return changed_query(context["request"].GET, {name: value or None, "after": None, "before": None})


@register.simple_tag(takes_context=True)
def kept_filters(context: template.Context, *own: str) -> SafeString:
    """What else the address asks for, for a form whose own fields are `own`; which page it was is forgotten."""
    left_out = {*own, *PAGE_MARKS}
    pairs = [(name, value) for name, value in context["request"].GET.items() if name not in left_out]
    return format_html_join("", '<input type="hidden" name="{}" value="{}">', pairs)


@register.simple_tag(takes_context=True)
def query_without(context: template.Context, name: str) -> str:
    return changed_query(context["request"].GET, {name: None})


@register.simple_tag(takes_context=True)
def query_narrowed(context: template.Context, narrow: dict[str, Any], by: str | None) -> str:
    return changed_query(context["request"].GET, {**narrow, "by": by})


def changed_query(params: QueryDict, changes: dict[str, Any]) -> str:
    changed = params.copy()
    for name, value in changes.items():
        changed.pop(name, None)
        if value is not None:
            changed[name] = str(value)
    return f"?{changed.urlencode()}"


@register.filter
def initials(name: str) -> str:
    words = name.replace("@", " ").replace(".", " ").split()
    return "".join(word[0] for word in words[:2]) or "?"


@register.simple_tag
def icon_sheet() -> str:
    return static("vendor/icons/icons.svg")


@register.filter
def audit_words(action: str) -> str:
    """`key.revoked` reads as "revoked key", `route.weights_changed` as "changed weights of route"."""
    if action in WORDS_OF_THEIR_OWN:
        return WORDS_OF_THEIR_OWN[action]
    subject, _, done = action.partition(".")
    what, _, verb = done.rpartition("_")
    return f"{verb} {what} of {subject}".replace("_", " ") if what else f"{verb} {subject}".replace("_", " ")


@register.filter
def named(names: dict[Any, str], identity: str) -> str:
    """Of a mapping by id, as a UUID or as text; what has no name there goes by the beginning of its id."""
    return names.get(identity) or names.get(read_uuid(identity)) or identity[:8]


@register.filter
def spaced(word: str) -> str:
    return word.replace("_", " ")


@register.filter
def in_words(value: Any) -> str:
    """What JSON has nested, as people write it: `zone=a, tier=b`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')}={in_words(each)}" for name, each in value.items())
    return ", ".join(map(in_words, value)) if isinstance(value, list) else str(value)


@register.filter
def id_end(identity: Any) -> str:
    """Ids begin with the time, so those of one hour differ at their end."""
    return str(identity)[-6:]


@register.filter
def after_colon(name: str) -> str:
    """`demo-chat:v2` → `v2`, where the model is named beside it."""
    return name.rpartition(":")[2]
