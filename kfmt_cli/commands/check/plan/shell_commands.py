"""check: the shell commands that steps consist of."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kfmt_cli.disk.file_access import stat_path
from kfmt_cli.disk.file_names import real_path
from kfmt_cli.errors import InputError
from kfmt_cli.render.style import quote_for_shell, quote_path_for_shell


def move_command(source: str, target: str) -> str:
    """Moves a file or directory."""
    return f"mv {quote_path_for_shell(source)} {quote_path_for_shell(target)}"


def aside_path(path: str) -> str:
    """An unused path next to a file."""
    return _free_path(Path(path).with_name(f"{Path(path).name}.aside"))


def outside_path(directory: str) -> str:
    """An unused path next to the log directory, for a directory moved out of it."""
    log_directory = Path(real_path(directory.rstrip("/"), may_be_link=False)).parent
    return _free_path(log_directory.parent / f"{Path(directory).name}.aside")


def _free_path(path: Path) -> str:
    n = 1
    free_path = path
    while os.path.lexists(free_path):
        n += 1
        free_path = path.with_name(f"{path.name}{n}")
    return str(free_path)


def write_command(path: str, lines: Iterable[str], old_path: str | None = None) -> str:
    """Writes a small file. old_path: the path to which an existing file is moved; None if there is
    none.

    A file that root writes into a directory of another user gets that user as its owner.
    """
    quoted_path = quote_path_for_shell(path)
    text = " ".join(map(quote_for_shell, ("printf", "%s\\n", *lines)))
    command = f"{text} > {quoted_path}"
    if old_path is not None:
        command = f"{move_command(path, old_path)} && {command}"
    directory = str(Path(path).parent)
    if os.geteuid() == 0 and _owner_id(directory) != 0:
        command += f" && chown --reference={quote_path_for_shell(directory)} {quoted_path}"
    return command


def _owner_id(path: str) -> int:
    try:
        return stat_path(path).st_uid
    except (OSError, InputError):
        return 0
