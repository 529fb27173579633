"""Something happens while the code under test sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest


def while_asleep(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something in place of each sleep of this thread; others, as py4j's, sleep as before."""
    really, mine = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:
        if threading.current_thread() is mine:
            do()
        else:
            really(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
