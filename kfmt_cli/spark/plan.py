"""How the files of a request are shared out to tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.datasource import InputPartition

from kfmt_cli.log.select import Selection
from kfmt_cli.sharing.piece import cuts_of, pack
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request, share_of

# Tables with something that is true of a whole file, as rules are that look at neighbours.
WHOLE = ("segments", "index_entries", "findings")


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads."""

    pieces: Pieces = field(default_factory=Pieces)
    wanted: tuple[tuple[str, Selection], ...] = ()
    """What is wanted in each directory, where its logs had to be read to know."""


class SplitPartition(InputPartition):
    """A split as Spark carries it to a task."""

    def __init__(self, split: Split) -> None:
        self.split = split


def plan(request: Request, files: Pieces) -> list[Split]:
    """Its files shared out; an empty list where there is nothing to read."""
    share = share_of(request, files)
    cut = request.table not in WHOLE
    pieces = files.parted(lambda file: cuts_of(file, share)) if cut else files
    return [Split(part) for part in pieces.shared(pack(pieces, share))]
