"""What a reader of pieces is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.core.compression import Limit
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.files.select import Selection
from kfmt_cli.pieces.piece import MIB, OPENING, Piece
from kfmt_cli.rows.column import Column, RowType
from kfmt_cli.rows.tables import chosen

SPLIT = 128 * MIB
LEAST_SPLIT = 32 * MIB
BATCH_ROWS = 32768


@dataclass(frozen=True, slots=True)
class Request:
    """Offsets and times (in milliseconds) are bounds that belong to what is wanted."""

    table: str = "records"
    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    start_offset: int | None = None
    end_offset: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    topics: frozenset[str] = frozenset()
    committed: bool = False
    max_split: int = SPLIT
    batch_rows: int = BATCH_ROWS
    fail_fast: bool = False
    deep: bool = False
    pushdown: bool = False
    parallelism: int = field(default_factory=available_cores)
    limit: Limit = field(default_factory=Limit)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of the result."""
        return chosen(self.table, self.columns)

    def shown_of(self, rows: RowType) -> tuple[Column, ...]:
        """The columns of a table that may be another one than the request's."""
        return self.shown if rows.name == self.table else rows.leaves

    @property
    def wanted(self) -> Selection:
        """The offsets and times that are wanted."""
        return Selection(self.start_offset, self.end_offset, self.start_time, self.end_time)


def share_of(request: Request, pieces: list[Piece]) -> int:
    """Bytes for one worker: enough shares for the cores, none larger than what is asked for."""
    total = sum(it.end - it.start + OPENING for it in pieces)
    share = -(-total // max(request.parallelism, 1))
    return min(request.max_split, max(LEAST_SPLIT, share))
