"""Files that are carried along, and a destination that must be new."""

from __future__ import annotations

import shutil
from pathlib import Path

from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import printable
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.writing.output import Staging


def need_new(source: str, destination: str) -> None:
    """Raise InputError where SRC is not there, UsageError where DST is, or lies inside SRC."""
    if not Path(source).exists():
        raise InputError(f"{printable(source)}: No such file or directory")
    target = Path(destination)
    if target.exists() or target.is_symlink():
        raise UsageError(f"{printable(destination)}: already exists; DST must not exist")
    if Path(source).resolve() in target.resolve().parents:
        raise UsageError(f"{printable(destination)}: lies inside SRC")


def carry(staging: Staging, file: Input, name: str) -> None:
    """Copy a file with its times and permissions; raises InputError. name: below DST."""
    out = staging.file(name)
    try:
        with Path(file.path).open("rb") as source:
            while data := source.read(1 << 20):
                out.write(data)
        out.close()
    except PermissionError as error:
        raise InputError(f"{file.name}: {error.strerror}") from error
    finally:
        out.abandon()
    shutil.copystat(file.path, staging.folder / name)
