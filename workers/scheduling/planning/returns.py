"""When those who were refused are told to come back: one after the other, so that there is room for each of them."""


class Returns:
    """A queue that nobody stands in. By rank; a class comes after those above it, and does not wait for those below."""

    __slots__ = ("_served_at",)

    def __init__(self) -> None:
        self._served_at: dict[int, float] = {}

    def told_s(self, rank: int, cost_s: float, *, wait_s: float, longest_s: float, now: float) -> float:
        """Until `wait_s` there is no room for anybody; then each takes `cost_s` of the whole fleet.

        Nobody is told more than `longest_s`; those who are told so much take no room of others, and nobody takes more.
        """
        begins_at = max([now + wait_s, *(at for above, at in self._served_at.items() if above <= rank)])
        if begins_at - now >= longest_s:
            return longest_s
        self._served_at[rank] = min(begins_at + cost_s, now + longest_s)
        return begins_at - now
