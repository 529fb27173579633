"""Which of the modules that a C compiler makes fast are compiled, and why the others are not."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

MODULES = ("kernel", "encode", "scan", "hash_table", "text", "quote", "cell", "bound", "emit")


def interpreted() -> list[str]:
    """The names of the modules that run as Python because there was no compiler to build them."""
    modules = {name: importlib.import_module(f"kfmt_cli.core.native.{name}") for name in MODULES}
    return [name for name, module in modules.items() if not module.COMPILED]


# Written by setup.py where it could not build the extensions: a line that says why.
NOT_COMPILED = "not_compiled.txt"


def reason() -> str:
    """Why modules run as Python, for `kfmt --version`."""
    folder = Path(__file__).parent
    extensions = sorted(
        path.name for path in folder.glob("kernel.*.*") if path.suffix in (".so", ".pyd")
    )
    if extensions and not any(
        extension.endswith(tuple(EXTENSION_SUFFIXES[:-1])) for extension in extensions
    ):
        this = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
        return f"{folder} has extensions for another Python version, and this is {this}"
    try:
        return (folder / NOT_COMPILED).read_text("utf-8").strip()
    except OSError:
        pass
    root = folder.parent.parent.parent
    if (root / "setup.py").is_file():
        return (
            f"these are the sources in {root}, without extensions; pip install {root} builds them"
        )
    return "Cython was missing when it was installed"
