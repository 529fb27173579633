"""The only file that a run writes, besides standard output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kfmt_cli.writers.leftovers import remove_output_leftovers
from kfmt_cli.writers.output import open_replacement, replace_file


@contextmanager
def open_single_file(path: Path) -> Iterator[int]:
    """Yield the descriptor of the file, see `open_replacement`, and remove the leftovers of killed
    runs next to it. Raises OutputError."""
    remove_output_leftovers(path.absolute().parent)
    with open_replacement(path) as fd:
        yield fd


def write_single_file(path: Path, data: bytes) -> None:
    """Write or replace the file; raises OutputError."""
    remove_output_leftovers(path.absolute().parent)
    replace_file(path, data)
