"""The state of the compiled modules: which are missing, why, and whether they match the sources.

`setup.py` executes this file for its names, so it imports nothing from kfmt.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

MODULES = ("kernel", "encode", "scan", "hash_table", "text", "quote", "cell", "row_bounds", "emit")
# Code for memory views that all modules share, so that it is not compiled into each of them.
SHARED = "_cyutility"
# Written by setup.py if it could not build the extensions: a line with the reason.
NOT_COMPILED = "not_compiled.txt"
# Written by setup.py next to the extensions: the hash of the sources they were built from.
COMPILED_FROM = "compiled_from.txt"

_DIRECTORY = Path(__file__).parent
_EXTENSION_SUFFIX = EXTENSION_SUFFIXES[0]


def interpreted_modules() -> list[str]:
    """The names of the modules that are not compiled and run as Python."""
    modules = {name: importlib.import_module(f"kfmt_cli.core.native.{name}") for name in MODULES}
    return [name for name, module in modules.items() if not module.COMPILED]


def hash_of_sources(directory: Path = _DIRECTORY) -> str:
    """A hash of the compiler's input: the sources of the modules, and the declarations they share.
    Raises OSError."""
    from importlib.util import source_hash

    source_paths = [
        *(directory / f"{name}.py" for name in MODULES),
        *sorted(directory.glob("*.pxd")),
    ]
    joined_sources = b"\0".join(
        path.name.encode() + b"\0" + path.read_bytes() for path in source_paths
    )
    return source_hash(joined_sources).hex()


def missing_extensions(directory: Path = _DIRECTORY) -> Sequence[str]:
    """The missing extensions for this Python; empty if all of them are missing.

    Extensions call each other's C functions, so none of them works unless all exist.
    """
    extension_names = (SHARED, *MODULES)
    missing_names = [
        name for name in extension_names if not (directory / f"{name}{_EXTENSION_SUFFIX}").exists()
    ]
    return missing_names if len(missing_names) < len(extension_names) else []


def stale_message(directory: Path = _DIRECTORY) -> str | None:
    """A message if the extensions were not built from the sources, with the command that rebuilds
    them; None if they were, or if there are no extensions."""
    if not (directory / f"{MODULES[0]}{_EXTENSION_SUFFIX}").exists():
        return None
    try:
        if (directory / COMPILED_FROM).read_text("utf-8").strip() == hash_of_sources(directory):
            return None
    except OSError:
        pass
    return (
        f"the compiled kernel in {directory} was not built from the sources next to it, which "
        f"have no effect until it is rebuilt: {_rebuild_command(directory)}"
    )


def incomplete_message(directory: Path = _DIRECTORY) -> str | None:
    """A message if only some extensions exist, with the command that rebuilds them; else None."""
    missing_names = missing_extensions(directory)
    if not missing_names:
        return None
    return (
        f"the compiled kernel in {directory} lacks {', '.join(missing_names)}, without which the "
        f"rest of it does not work; rebuild it: {_rebuild_command(directory)}"
    )


def _rebuild_command(directory: Path) -> str:
    """The command that rebuilds the kernel."""
    source_root = directory.parent.parent.parent
    if not (source_root / "setup.py").is_file():
        return "pip install --force-reinstall kfmt-cli"
    return "pip install -e ." if source_root == Path.cwd() else f"pip install -e {source_root}"


def interpreted_reason() -> str:
    """The reason why modules run as Python, for `kfmt --version`."""
    directory = _DIRECTORY
    extension_files = sorted(
        path.name for path in directory.glob("kernel.*.*") if path.suffix in (".so", ".pyd")
    )
    if extension_files and not any(
        extension.endswith(tuple(EXTENSION_SUFFIXES[:-1])) for extension in extension_files
    ):
        running_python = (
            f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
        )
        return (
            f"{directory} has extensions for another Python version, and this is {running_python}"
        )
    try:
        return (directory / NOT_COMPILED).read_text("utf-8").strip()
    except OSError:
        pass
    source_root = directory.parent.parent.parent
    if (source_root / "setup.py").is_file():
        return (
            f"these are the sources in {source_root}, without extensions; pip install "
            f"{source_root} builds them"
        )
    return "Cython was missing when it was installed"
