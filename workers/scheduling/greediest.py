"""Who has most of something that is bounded, found without looking at all who have any."""


class Greediest:
    """Counts by name. Of those that have as many, the one that has had so many for the longest comes first."""

    __slots__ = ("_alike", "_counts", "most")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._alike: dict[int, dict[str, None]] = {}
        self.most = 0

    def __len__(self) -> int:
        """Of those that have any."""
        return len(self._counts)

    def count_of(self, name: str) -> int:
        return self._counts.get(name, 0)

    def add(self, name: str) -> None:
        count = self.count_of(name)
        self._move(name, count, count + 1)

    def remove(self, name: str) -> None:
        """One that was added."""
        count = self._counts[name]
        self._move(name, count, count - 1)

    def first(self) -> str:
        """There must be one."""
        return next(iter(self._alike[self.most]))

    def _move(self, name: str, before: int, after: int) -> None:
        if before:
            alike = self._alike[before]
            del alike[name]
            if not alike:
                del self._alike[before]
        if after:
            self._counts[name] = after
            self._alike.setdefault(after, {})[name] = None
        else:
            del self._counts[name]
        if after > self.most or self.most not in self._alike:
            self.most = after
