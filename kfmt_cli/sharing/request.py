"""The request that readers of pieces follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.credentials import SentCredentials
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.given import private_key_bytes
from kfmt_cli.disk.trees import TREES
from kfmt_cli.errors import UsageError
from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.rows.column import Column
from kfmt_cli.rows.table_types import TABLES, chosen
from kfmt_cli.sharing.piece import MIB, OPENING, Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.topics import decoder_for
from kfmt_cli.topics.decoder import Decoder
from kfmt_cli.topics.payloads import NOTHING_SAID, Payloads

SPLIT = 128 * MIB
LEAST_SPLIT = 32 * MIB
BATCH_ROWS = 32768


@dataclass(frozen=True, slots=True)
class Request:
    """What to read, and how."""

    table: str = "records"
    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    asked: Asked = field(default_factory=Asked)
    """The selection of records."""
    in_folders: Mapping[str, Selection] = field(default_factory=dict)
    """The selection by directory, if it depends on the logs."""
    topics: frozenset[str] = frozenset()
    max_split: int = SPLIT
    batch_rows: int = BATCH_ROWS
    fail_fast: bool = False
    raises_unreadable: bool = False
    """Whether an input that cannot be read is an error, instead of a finding."""
    deep: bool = False
    pushdown: bool = False
    parallelism: int = field(default_factory=available_cores)
    limit: Limit = field(default_factory=Limit)
    payloads: Payloads = NOTHING_SAID
    """Formats of keys and values, for topics without their own decoder."""
    private_key: bytes | None = field(default=None, repr=False)
    """Contents of the private key file for encrypted segments in tiered storage."""
    credentials: SentCredentials = field(default_factory=SentCredentials, repr=False, compare=False)
    """Those of URLs, for other processes."""

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of the result."""
        return chosen(self.table, self.columns)

    def decoder_of(self, topic: str | None) -> Decoder | None:
        """The decoder for the keys and values of a topic; None if there is none."""
        return decoder_for(topic) or self.payloads.decoder

    def wants(self, topic: str | None) -> bool:
        """Whether the records of a topic are to be read."""
        return not self.topics or topic in self.topics

    def wanted_of(self, piece: Piece) -> Selection:
        """The selection of records in a piece."""
        return self.in_folders.get(piece.folder, self.asked.wanted)


def share_of(request: Request, pieces: Pieces) -> int:
    """Bytes per worker: about one share per core, of LEAST_SPLIT to `max_split` bytes."""
    total = pieces.n_bytes + len(pieces) * OPENING
    share = -(-total // max(request.parallelism, 1))
    return min(request.max_split, max(LEAST_SPLIT, share))


def request_with(request: Request, paths: Iterable[str], columns: str, topics: str) -> Request:
    """A request for what a command line names; raises UsageError.

    columns, topics: comma-separated names.
    """
    names = tuple(dict.fromkeys(names_in(columns)))
    for name in names:
        if name not in TABLES["records"].by_name:
            raise UsageError(f"table records has no column {name!r}")
    return replace(
        request,
        paths=tuple(_absolute(path) for path in paths),
        columns=names,
        topics=frozenset(names_in(topics)),
        private_key=private_key_bytes(),
    )


def names_in(text: str) -> tuple[str, ...]:
    """Split comma-separated names, without empty ones."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _absolute(path: str) -> str:
    """A path of the disk made absolute, so that it is valid in every process."""
    is_shown = not is_local(path) or TREES.at(path) is not None
    return path if is_shown else str(Path(path).absolute())
