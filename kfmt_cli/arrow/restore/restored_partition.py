"""A partition restored from the files of an export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa

from kfmt_cli.arrow.export.exported_rows import (
    FileOfPartition,
    Span,
    exported_pieces,
    rows_in,
)
from kfmt_cli.arrow.export.output import get_json, put_json
from kfmt_cli.arrow.restore.restoring import (
    OF_BATCHES,
    OF_DESCRIBED,
    OF_RECORDS,
    PartitionRestorer,
    RestoredCounts,
)
from kfmt_cli.disk.names import topic_trouble
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.rows.table_types import BATCHES, RECORDS
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.writing.derived import write_derived
from kfmt_cli.writing.output import Staging, staged
from kfmt_cli.writing.rolling import Rolling

LOG_DIRECTORY = "log_dir"


@dataclass(slots=True)
class ExportedPartition:
    """The files of a partition."""

    topic: str | None
    partition: int | None
    records: list[FileOfPartition] = field(default_factory=list)
    batches: list[FileOfPartition] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def n_rows(self) -> int:
        """The number of records."""
        return sum(file.span.rows for file in self.records)

    def rows(self, table: str) -> Iterator[pa.RecordBatch]:
        """The rows of a table in offset order; raises InputError."""
        of_records = table == RECORDS.name
        of_row: tuple[str, ...] = OF_DESCRIBED if self.batches else OF_RECORDS
        names, files = (of_row, self.records) if of_records else (OF_BATCHES, self.batches)
        for file in sorted(files, key=lambda file: (file.span.first, file.path)):
            yield from rows_in(file.path, (self.topic, self.partition), names, table)

    def check(self) -> None:
        """Raise InputError if it cannot have a directory."""
        trouble = topic_trouble(self.topic or "")
        if trouble is None and (self.partition is None or self.partition < 0):
            trouble = f"{self.partition} is not the number of a partition"
        if trouble is not None:
            raise InputError(f"{self.records[0].path}: {trouble}")

    def digest(self, codec: int | None) -> str:
        """A digest of what its segments are made from."""
        which = blake2b(repr((codec, self.records, self.batches)).encode(), digest_size=12)
        return which.hexdigest()


def exported_partitions(
    found: Iterable[tuple[Piece, str, Iterable[Span]]],
) -> list[ExportedPartition]:
    """The partitions with records, and their files: each with its table and what it has."""
    by_place: dict[tuple[Any, Any], ExportedPartition] = {}
    for piece, table, spans in found:
        for span in spans:
            place = span.topic, span.partition
            each = by_place.setdefault(place, ExportedPartition(*place))
            files = each.records if table == RECORDS.name else each.batches
            files.append(FileOfPartition(piece.path, piece.size, piece.modified, span))
    with_records = [each for each in by_place.values() if each.records]
    return sorted(with_records, key=lambda each: (each.topic or "", each.partition or 0))


def tables_at(path: str) -> list[Piece] | None:
    """The files of the tables of records and batches at a path; None if it has no table of
    records. Raises InputError."""
    records = exported_pieces(path)
    if not records:
        return None
    known = {file.path for file in records}  # the path may be the table itself
    batches = exported_pieces(path, BATCHES.name) or ()
    return [*records, *(file for file in batches if file.path not in known)]


def restore_partition(files: ExportedPartition, to: str, codec: int | None) -> RestoredCounts:
    """Write the segments of a partition, all or none; those that an earlier run has written of the
    same files stay. Raises InputError, OutputError, UsageError."""
    files.check()
    folder = Path(to) / LOG_DIRECTORY / files.name
    mark, of = f"{to}/_kfmt/restored/{files.name}.json", files.digest(codec)
    known: dict[str, Any] = get_json(mark) or {}
    if folder.exists() and known.get("of") == of and "counts" in known:
        return RestoredCounts(**known["counts"])
    if folder.exists():
        if not known:
            raise UsageError(f"{folder}: already exists, and kfmt has not restored it")
        rmtree(folder)
    put_json(mark, {"of": of})
    rolling = Rolling()
    with staged(str(folder)) as staging:
        made = restored(files, staging, "", rolling, codec)
        for segments in made.writer.logs.values():
            for _ in write_derived(staging, "", segments, rolling.index_interval_bytes):
                pass
    put_json(mark, {"of": of, "counts": asdict(made.counts)})
    return made.counts


def restored(
    files: ExportedPartition, staging: Staging, folder: str, rolling: Rolling, codec: int | None
) -> PartitionRestorer:
    """Write the segments of a partition under a folder of a staging; raises InputError,
    OutputError. codec: see `PartitionRestorer`."""
    batches = files.rows(BATCHES.name) if files.batches else None
    restorer = PartitionRestorer(files.name, staging, folder, rolling, batches, codec)
    restorer.restore(files.rows(RECORDS.name))
    return restorer


def grouped_by_file(partitions: Sequence[ExportedPartition]) -> Iterator[list[ExportedPartition]]:
    """Partitions in order, those together whose records share files."""
    group: list[ExportedPartition] = []
    for each in partitions:
        last = {file.path for file in group[-1].records} if group else set()
        if group and not last & {file.path for file in each.records}:
            yield group
            group = []
        group.append(each)
    if group:
        yield group
