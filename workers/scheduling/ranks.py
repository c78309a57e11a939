"""What is given by service class, first the class with rank 0."""


def by_rank(values: tuple[float, ...], rank: int) -> float:
    """The last value stands for all lower classes."""
    return values[rank] if rank < len(values) else values[-1]
