"""Which of the modules that a C compiler makes fast were compiled when kfmt was installed."""

from __future__ import annotations

import importlib

MODULES = ("kernel", "encode", "scan", "latest", "text", "quote", "cell", "room", "emit")


def interpreted() -> list[str]:
    """The names of the modules that run as Python because there was no compiler to build them."""
    modules = {name: importlib.import_module(f"kfmt_cli.core.{name}") for name in MODULES}
    return [name for name, module in modules.items() if not module.COMPILED]
