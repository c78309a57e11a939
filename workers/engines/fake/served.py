"""What this engine serves, and what every call says of that."""

from msgspec import Struct

from workers.engines.fake.errors import unknown_model
from workers.engines.fake.fields import Fields


class Served(Struct, frozen=True, kw_only=True):
    """What this engine serves. `task` is "generate" or "embed"."""

    name: str
    task: str
    max_model_tokens: int


def check_model(fields: Fields, served: Served) -> None:
    model = fields.text("model")
    fields.close()
    if model and model != served.name:
        raise unknown_model(model, served.name)


def read_priority(fields: Fields, header: str | None) -> int:
    value = fields.integer("priority")
    if value is None and header is not None and header.lstrip("+-").isdecimal():
        return int(header)
    return value or 0
