"""What went wrong, and with which exit code it ends. Codes are for scripts, messages for people."""

from collections.abc import Mapping

from click import ClickException

FAILED = 1
NOT_FOUND = 3
NOT_ALLOWED = 4
CONFLICT = 5
UNREACHABLE = 6
INVALID = 7
TIMED_OUT = 8
TOO_LONG_AGO = 9

_BY_STATUS = {
    400: INVALID, 401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 409: CONFLICT, 410: TOO_LONG_AGO, 412: CONFLICT,
    413: INVALID, 415: INVALID, 422: INVALID, 428: CONFLICT,
    502: UNREACHABLE, 503: UNREACHABLE, 504: UNREACHABLE,
}  # fmt: skip


class CLIError(ClickException):
    """`fields` says which input is at fault, where the control plane has said so."""

    def __init__(self, message: str, exit_code: int = FAILED, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.fields = dict(fields or {})
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance


def code_of(status: int) -> int:
    return _BY_STATUS.get(status, FAILED)
