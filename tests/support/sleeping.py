"""An action that happens while the code under test sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest


def while_asleep(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Call `do` in place of each sleep of this thread; other threads, such as py4j's, sleep."""
    original_sleep, test_thread = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:
        if threading.current_thread() is test_thread:
            do()
        else:
            original_sleep(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
