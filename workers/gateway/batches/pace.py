"""How many items of batches may run beside everybody else."""

BATCH_SHARE = 0.5
MAX_IN_FLIGHT = 256
# At other nodes, which have batches of their own: there they wait behind everybody else, as here.
FORWARDED_AT_ONCE = 16


def items_to_start(*, in_flight: int, slots: int, others_waiting: int) -> int:
    """`slots` is how many requests all engines take at once.

    While anybody else waits no item is added: what an item holds on an engine cannot be taken back.
    """
    if others_waiting > 0 or slots <= 0:
        return 0
    return max(min(max(int(slots * BATCH_SHARE), 1), MAX_IN_FLIGHT) - in_flight, 0)
