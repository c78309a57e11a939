"""`POST /v1/outcomes`: a client says whether a task succeeded, and what that was worth. What it means: the contract."""

import re
from decimal import Decimal, InvalidOperation

import msgspec
from msgspec import Struct

from workers.contracts.outcomes import TaskOutcome
from workers.gateway import errors
from workers.gateway.errors import GatewayError

OUTCOMES = b"/v1/outcomes"
MAX_ID = 128
_PICO_PLACES = 12
_MAX_VALUE_PICO_USD = 2**63 - 1
# Python's decimals also take underscores and the digits of other scripts.
_AMOUNT = re.compile(rb'("?)([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\1')


class _Report(Struct, forbid_unknown_fields=True):
    success: bool
    request_id: str = ""
    workflow_id: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(_Report).decode


def read_outcome(body: bytes) -> TaskOutcome:
    """Raises GatewayError. `value` is in US dollars, a number or a decimal string, exact to the picodollar."""
    try:
        report = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_request("invalid_outcome", f"The outcome cannot be read: {error}") from error
    if bool(report.request_id) == bool(report.workflow_id):
        raise _refused("Give request_id or workflow_id, one of them.", "request_id")
    if len(report.request_id + report.workflow_id) > MAX_ID:
        raise _refused(f"An id has {MAX_ID} characters at most.", "request_id" if report.request_id else "workflow_id")
    if not (report.request_id + report.workflow_id).isprintable():
        raise _refused("An id has printable characters only.", "request_id" if report.request_id else "workflow_id")
    return TaskOutcome(
        request_id=report.request_id,
        workflow_id=report.workflow_id,
        is_success=report.success,
        value_pico_usd=_pico_in(bytes(report.value)),
    )


def _pico_in(raw: bytes) -> int | None:
    return None if raw == b"null" else _pico(_amount(raw))


def _amount(raw: bytes) -> Decimal:
    written = _AMOUNT.fullmatch(raw)
    try:
        return Decimal(written[2].decode() if written else "NaN")
    except InvalidOperation:
        return Decimal("NaN")


def _pico(value: Decimal) -> int:
    if not value.is_finite() or abs(value.adjusted()) > _PICO_PLACES:
        raise _refused("The value is not an amount in US dollars.", "value")
    pico_usd = value.scaleb(_PICO_PLACES)
    if pico_usd != pico_usd.to_integral_value() or abs(pico_usd) > _MAX_VALUE_PICO_USD:
        raise _refused("The value has more than twelve decimals or is too large.", "value")
    return int(pico_usd)


def _refused(message: str, param: str) -> GatewayError:
    return errors.bad_request("invalid_outcome", message, param)


def outcome_body(told: TaskOutcome) -> bytes:
    answer: dict[str, object] = {"object": "outcome", "success": told.is_success}
    if told.request_id:
        answer["request_id"] = told.request_id
    else:
        answer["workflow_id"] = told.workflow_id
    if told.value_pico_usd is not None:
        answer["value"] = format(Decimal(told.value_pico_usd).scaleb(-_PICO_PLACES).normalize(), "f")
    return msgspec.json.encode(answer)
