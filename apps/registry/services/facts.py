from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a source says of its model. `commit` is what the revision was when it was read, of a store the digest.

    `weight_bytes` is None where the source does not tell.
    """

    source: str
    revision: str
    commit: str
    config: dict[str, Any]
    weight_bytes: int | None
    licence: str
    tags: list[str]

    @property
    def pinned(self) -> dict[str, Any]:
        """As fields of a version; what is not known is left out."""
        read = {"config": self.config, "weight_bytes": self.weight_bytes, "licence": self.licence, "tags": self.tags}
        return {name: value for name, value in read.items() if value} | {"revision": self.commit or self.revision}
