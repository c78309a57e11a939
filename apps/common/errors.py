"""What the domain refuses, and why. Entry points turn these into problem+json or a message on the page."""


class DomainError(Exception):
    """`code` is stable and for programs; the message is for people; `fields` says which input is at fault."""

    code = "refused"
    status = 400

    def __init__(self, message: str, *, fields: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields or {}


class InvalidInputError(DomainError):
    code = "invalid_input"
    status = 400


class NotAllowedError(DomainError):
    code = "not_allowed"
    status = 403


class NotFoundError(DomainError):
    code = "not_found"
    status = 404


class ConflictError(DomainError):
    code = "conflict"
    status = 409
