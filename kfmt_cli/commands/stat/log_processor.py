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
from kfmt_cli.log.log_opening import no_batch_message, require_log
from kfmt_cli.log.reader import MAX_BLOCK_BYTES, LogReader
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.log.small_logs import can_read_in_group, read_small_logs
from kfmt_cli.log.summary.log_summary import LogShapeFactory, LogSummary, summarize_small_logs

LogTask = tuple[InputFile, Selection]


@dataclass(frozen=True, slots=True)
class StatProcessor(ItemProcessor[LogTask, LogSummary, None]):
    """Counts the selected records of logs."""

    deep: bool
    decompression_limit: DecompressionLimit
    create_shape: LogShapeFactory

    def can_group(self, item: LogTask) -> bool:
        file, selection = item
        return not (self.deep or selection) and can_read_in_group(file)

    def process_group(self, items: Sequence[LogTask]) -> list[LogSummary | None]:
        return summarize_small_logs(
            read_small_logs([file for file, _ in items], check_crcs=False), self.create_shape
        )

    def process_item(self, item: LogTask) -> LogSummary:
        log_file, selection = item
        require_log(log_file)
        log_summary, n_counted_bytes = LogSummary(self.create_shape(log_file)), 0
        with closing(open_source(log_file.path, log_file.name)) as source:
            log_reader = LogReader(
                source,
                log_file.base_offset,
                check_crcs=self.deep,
                first_block_bytes=MAX_BLOCK_BYTES,
            )
            for block in log_reader.iter_blocks():
                findings: list[Finding] = []
                for counted_block in (
                    selection.iter_narrowed_batches(block, self.decompression_limit, findings)
                    if selection
                    else (block,)
                ):
                    n_counted_bytes += int(counted_block.batches.size.sum())
                    log_summary.add_block(counted_block, has_wrapper_counts=bool(selection))
                if self.deep:
                    log_summary.statistics.add_records(block, self.decompression_limit, findings)
                if self.deep or selection:
                    n_undecoded_batches = len({finding.batch for finding in findings})
                    n_damaged_batches = int((block.batches.crc_valid == 0).sum())
                    log_summary.statistics.damaged += n_damaged_batches + n_undecoded_batches
        if not (log_reader.n_batches or log_reader.has_plausible_batch or log_file.has_broker_name):
            raise InputError(no_batch_message(log_file, log_reader.bytes_read))
        log_summary.statistics.set_size_and_span(
            n_counted_bytes if selection else log_reader.bytes_read
        )
        return log_summary

    def summarize_or_error(self, item: LogTask) -> LogSummary | InputError:
        """The statistics of a log, or the error if it cannot be read."""
        try:
            return self.process_item(item)
        except InputError as error:
            return error
