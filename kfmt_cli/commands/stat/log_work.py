"""How processes count logs: small ones in packs, by their headers; others by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import open_source
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.open_log import need_log, no_batch_found
from kfmt_cli.log.pack import is_packable, read_pack
from kfmt_cli.log.reader import BLOCK, LogReader
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.log.summary.log_numbers import LogNumbers, ShapeOf, numbers_in
from kfmt_cli.sharing.engine import Work

LogTask = tuple[Input, Selection]


@dataclass(frozen=True, slots=True)
class StatWork(Work[LogTask, LogNumbers, None]):
    """Counts the selected records of logs."""

    deep: bool
    limit: Limit
    shape_of: ShapeOf

    def is_packed(self, item: LogTask) -> bool:
        file, wanted = item
        return not (self.deep or wanted) and is_packable(file)

    def together(self, items: Sequence[LogTask]) -> list[LogNumbers | None]:
        return numbers_in(read_pack([file for file, _ in items], checked=False), self.shape_of)

    def alone(self, item: LogTask) -> LogNumbers:
        file, wanted = item
        need_log(file)
        found, n_bytes = LogNumbers(self.shape_of(file)), 0
        with closing(open_source(file.path, file.name)) as source:
            reader = LogReader(source, file.base_offset, checked=self.deep, first_block=BLOCK)
            for block in reader.blocks():
                findings: list[Finding] = []
                for part in wanted.counted(block, self.limit, findings) if wanted else (block,):
                    n_bytes += int(part.batches.size.sum())
                    found.take(part, is_counted=bool(wanted))
                if self.deep:
                    found.statistics.look_inside(block, self.limit, findings)
                if self.deep or wanted:
                    n_undecoded = len({finding.batch for finding in findings})
                    n_damaged = int((block.batches.crc_valid == 0).sum())
                    found.statistics.damaged += n_damaged + n_undecoded
        if not (reader.n_batches or reader.plausible or file.named_by_kafka) and reader.bytes_read:
            raise InputError(no_batch_found(file.name))
        found.statistics.finish(n_bytes if wanted else reader.bytes_read)
        return found

    def tried(self, item: LogTask) -> LogNumbers | InputError:
        """The numbers of a log, or why it cannot be read."""
        try:
            return self.alone(item)
        except InputError as error:
            return error
