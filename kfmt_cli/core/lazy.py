"""What registries name as text, so that it is imported when it is used."""

from __future__ import annotations

import importlib
from typing import Any


def load(target: str) -> Any:
    """What `module:name` names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
