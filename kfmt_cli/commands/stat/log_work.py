"""How processes count logs: small ones in packs, by their headers; others by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from kfmt_cli.commands.stat.log_shapes import strip_of
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.source import Source, open_source
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.open_log import no_batch_found
from kfmt_cli.log.pack import is_packable, read_pack
from kfmt_cli.log.reader import BLOCK, LogReader
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.log.summary.shape import Shape
from kfmt_cli.log.summary.statistics import Statistics, statistics_of
from kfmt_cli.sharing.engine import Work

LogNumbers = tuple[Statistics, Shape | None]


@dataclass(frozen=True, slots=True)
class LogTask:
    """A log to count."""

    file: Input
    wanted: Selection
    n_cells: int | None
    """The cells of its strip; None for no shape."""

    def shape(self) -> Shape | None:
        """Its shape, without batches yet."""
        return None if self.n_cells is None else Shape(strip=strip_of(self.file, self.n_cells))


@dataclass(frozen=True, slots=True)
class StatWork(Work[LogTask, LogNumbers, None]):
    """Counts the selected records of logs."""

    deep: bool
    limit: Limit

    def is_packed(self, item: LogTask) -> bool:
        return not (self.deep or item.wanted) and is_packable(item.file)

    def together(self, items: Sequence[LogTask]) -> list[LogNumbers | None]:
        pack = read_pack([task.file for task in items], checked=False)
        found = statistics_of(pack.batches, pack.owner, len(items))
        made: list[LogNumbers | None] = [None] * len(items)
        for i in np.flatnonzero(pack.good).tolist():
            found[i].segments = 1
            found[i].finish(int(pack.sizes[i]))
            shape = items[i].shape()
            if shape is not None:
                shape.take(pack.block(i))
            made[i] = found[i], shape
        return made

    def alone(self, item: LogTask) -> LogNumbers:
        with closing(open_source(item.file.path, item.file.name)) as source:
            return self._read(item, source)

    def tried(self, item: LogTask) -> LogNumbers | InputError:
        """The numbers of a log, or why it cannot be read."""
        try:
            return self.alone(item)
        except InputError as error:
            return error

    def _read(self, task: LogTask, source: Source) -> LogNumbers:
        file, wanted, deep = task.file, task.wanted, self.deep
        found, shape = Statistics(segments=1), task.shape()
        reader = LogReader(source, file.base_offset, checked=deep, first_block=BLOCK)
        n_bytes = 0
        for block in reader.blocks():
            findings: list[Finding] = []
            for part in wanted.counted(block, self.limit, findings) if wanted else (block,):
                n_bytes += int(part.batches.size.sum())
                found.take(part, is_counted=bool(wanted))
                if shape is not None:
                    shape.take(part)
            if deep:
                found.look_inside(block, self.limit, findings)
            if deep or wanted:
                n_undecoded = len({finding.batch for finding in findings})
                found.damaged += int((block.batches.crc_valid == 0).sum()) + n_undecoded
        if not (reader.n_batches or reader.plausible or file.named_by_kafka) and reader.bytes_read:
            raise InputError(no_batch_found(file.name))
        found.finish(n_bytes if wanted else reader.bytes_read)
        return found, shape
