"""How the files of a request are distributed to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.datasource import InputPartition

from kfmt_cli.log.selection.select import Selection
from kfmt_cli.sharing.piece import cuts_of, pack
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request, share_of

# Tables with values that depend on a whole file, such as rules that compare neighbours.
WHOLE = ("segments", "index_entries", "findings")


@dataclass(frozen=True, slots=True)
class Split(InputPartition):
    """The input of one task."""

    pieces: Pieces = field(default_factory=Pieces)
    wanted: Mapping[str, Selection] = field(default_factory=dict)
    """The selection per directory, if logs in other splits had to be read to determine it."""
    ends: tuple[int, ...] = ()
    """In a stream, the offset at which the log of each piece ends, excluded."""


def plan(request: Request, files: Pieces) -> list[Split]:
    """Distribute the files to splits; an empty list if there is nothing to read."""
    share = share_of(request, files)
    cut = request.table not in WHOLE
    pieces = files.parted(lambda file: cuts_of(file, share)) if cut else files
    return [Split(part) for part in pieces.shared(pack(pieces, share))]
