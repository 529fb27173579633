"""Counts logs in processes: small ones in groups, by their headers; others one by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError
from kfmt_cli.execution.item_processor import ItemProcessor
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.log_opening import format_no_batch, require_log
from kfmt_cli.log.reader import BLOCK_BYTES, LogReader
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.log.small_logs import can_read_in_group, read_small_logs
from kfmt_cli.log.summary.log_summary import LogShapeFactory, LogSummary, summarize_small_logs

LogTask = tuple[InputFile, Selection]


@dataclass(frozen=True, slots=True)
class StatProcessor(ItemProcessor[LogTask, LogSummary, None]):
    """Counts the selected records of logs."""

    deep: bool
    limit: DecompressionLimit
    create_shape: LogShapeFactory

    def can_group(self, item: LogTask) -> bool:
        file, selection = item
        return not (self.deep or selection) and can_read_in_group(file)

    def process_group(self, items: Sequence[LogTask]) -> list[LogSummary | None]:
        return summarize_small_logs(
            read_small_logs([file for file, _ in items], check_crcs=False), self.create_shape
        )

    def process_one(self, item: LogTask) -> LogSummary:
        file, selection = item
        require_log(file)
        numbers, n_bytes = LogSummary(self.create_shape(file)), 0
        with closing(open_source(file.path, file.name)) as source:
            reader = LogReader(
                source, file.base_offset, check_crcs=self.deep, first_block_bytes=BLOCK_BYTES
            )
            for block in reader.iter_blocks():
                findings: list[Finding] = []
                for counted_block in (
                    selection.iter_narrowed_batches(block, self.limit, findings)
                    if selection
                    else (block,)
                ):
                    n_bytes += int(counted_block.batches.size.sum())
                    numbers.add_block(counted_block, has_wrapper_counts=bool(selection))
                if self.deep:
                    numbers.statistics.add_records(block, self.limit, findings)
                if self.deep or selection:
                    n_undecoded = len({finding.batch for finding in findings})
                    n_damaged = int((block.batches.crc_valid == 0).sum())
                    numbers.statistics.damaged += n_damaged + n_undecoded
        if (
            not (reader.n_batches or reader.has_plausible_batch or file.has_broker_name)
            and reader.bytes_read
        ):
            raise InputError(format_no_batch(file.name))
        numbers.statistics.finish(n_bytes if selection else reader.bytes_read)
        return numbers

    def count_or_error(self, item: LogTask) -> LogSummary | InputError:
        """The statistics of a log, or the error if it cannot be read."""
        try:
            return self.process_one(item)
        except InputError as error:
            return error
