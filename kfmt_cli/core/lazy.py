"""Objects that registries name as text, so that they are imported only when used."""

from __future__ import annotations

import importlib
from typing import Any


def import_object(object_reference: str) -> Any:
    """Import and return the object of a `module:name`."""
    module_name, _, object_name = object_reference.partition(":")
    return getattr(importlib.import_module(module_name), object_name)
