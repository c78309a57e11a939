"""For processes that an agent starts for itself: without it they are nobody's."""

import os
import threading
import time

_LOOKS_EACH_S = 0.5


def end_with_parent() -> None:
    """From now on this process ends as soon as the one that started it has, whatever it waits for."""
    threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOKS_EACH_S)
    os._exit(os.EX_TEMPFAIL)
