"""What metrics read of a process that is one of several."""


class SisterFigures:
    """`passed` to sisters and `adopted` from them; `refused`: the owner was not there for too long."""

    def __init__(self) -> None:
        self.is_one_of_several = False
        self.passed = 0
        self.adopted = 0
        self.refused = 0
        self.waiting = 0

    def lines(self) -> list[str]:
        """Prometheus text; nothing of a gateway that is one process."""
        if not self.is_one_of_several:
            return []
        name = "tokenyard_gateway_passed_connections"
        about = (
            "Connections between the gateway's processes: passed to the owner of a model, adopted there, or refused."
        )
        counts = (("passed", self.passed), ("adopted", self.adopted), ("refused", self.refused))
        lines = [f"# HELP {name}_total {about}\n# TYPE {name}_total counter\n"]
        lines += [f'{name}_total{{outcome="{outcome}"}} {count}\n' for outcome, count in counts]
        about = "Connections that wait to be passed."
        return [*lines, f"# HELP {name}_waiting {about}\n# TYPE {name}_waiting gauge\n{name}_waiting {self.waiting}\n"]
