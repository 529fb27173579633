"""Errors that say which file they concern."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kfmt_cli.errors import KfmtError
from kfmt_cli.sharing.piece import Piece


class WorkError(KfmtError):
    """A task could not continue with a file."""


@contextmanager
def telling(piece: Piece) -> Iterator[None]:
    """An error that says nothing of the file it concerns is raised as a WorkError that does."""
    try:
        yield
    except KfmtError:
        raise
    except Exception as error:
        part = f" from byte {piece.start} on" if piece.start else ""
        raise WorkError(f"{piece.path}{part}: {type(error).__name__}: {error}") from error
