"""compaction --key: shows every record of a key, whether cleaning keeps it, and why."""

from __future__ import annotations

import numpy as np

from kfmt_cli.broker.log_cleaner import DirtyRange
from kfmt_cli.broker.log_reading.offset_map import latest_in_run_mask
from kfmt_cli.broker.log_reading.seek import read_blocks_from
from kfmt_cli.checks.log.checker import open_checked_log
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.compaction.lines import key_lines
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.log.record_stream import StreamedRecord, iter_records_and_findings
from kfmt_cli.log.selection.record_filter import RecordFilter
from kfmt_cli.log.selection.selection import Selection
from kfmt_cli.render.style import format_count
from kfmt_cli.rows.documents import KEY_OUTCOME_ROW
from kfmt_cli.topics import find_decoder


def show_key_records(
    run: CommandRun,
    partition: Partition,
    key: bytes,
    dirty_range: DirtyRange,
    never_cleaned_reason: str | None,
    decompression_limit: DecompressionLimit,
) -> int:
    """Show every record of a key in a partition; returns their number.

    never_cleaned_reason: why the cleaner does not clean the partition; None if it does.
    """
    rows = _read_key_records(partition, key, decompression_limit)
    for i, row in enumerate(rows):
        row.stays, row.why = (
            (True, never_cleaned_reason)
            if never_cleaned_reason
            else _predict_record_outcome(row, rows[i + 1 :], dirty_range)
        )
        heading = partition.name if i == 0 else None
        run.sink.write_document(
            KEY_OUTCOME_ROW, row, key_lines(row, run.sink.streams.theme, heading)
        )
    if rows:
        run.sink.write_hint(format_count(len(rows), "record"))
    return len(rows)


def _read_key_records(
    partition: Partition, key: bytes, decompression_limit: DecompressionLimit
) -> list[FieldDict]:
    """The records of a key, with the members of `KEY_OUTCOME_ROW` that do not depend on a
    cleaning."""
    selection, key_records = Selection(record_filter=RecordFilter(key_pattern=key)), []
    for file in partition.logs:
        for block in read_blocks_from(file, read_ahead=True):
            block.batches = block.batches.select_rows(block.batches.crc_valid == 1)
            for batch_run, records in selection.iter_candidate_runs(block, decompression_limit):
                record_columns = records.rows
                for record_index in np.flatnonzero(
                    selection.record_mask(batch_run, records)
                ).tolist():
                    batch_index = int(np.searchsorted(records.row_ends, record_index, side="right"))
                    key_records.append(
                        FieldDict(
                            file=file.name,
                            batch_position=int(batch_run.batches.position[batch_index]),
                            offset=int(record_columns.offset[record_index]),
                            timestamp=int(record_columns.timestamp[record_index])
                            if record_columns.has_timestamp[record_index]
                            else None,
                            value_size=int(record_columns.value_size[record_index]),
                        )
                    )
    return key_records


def report_other_key_forms(
    run: CommandRun, partition: Partition, key: bytes, decompression_limit: DecompressionLimit
) -> None:
    """Report the keys of a partition that its program treats as equal to this one but the cleaner
    does not."""
    decoder = find_decoder(partition.topic_partition[0])
    if decoder is None or (logical_key := decoder.logical_key(key)) == key:
        return
    latest_by_form: dict[bytes, StreamedRecord] = {}
    for log in partition.logs:
        with open_checked_log(log, read_ahead=False) as opened_log:
            for record in iter_records_and_findings(
                opened_log, decompression_limit, latest_in_run_mask
            ):
                if isinstance(record, StreamedRecord) and record.key not in (None, key):
                    latest_by_form[record.key or b""] = record
    for form, record in latest_by_form.items():
        if decoder.logical_key(form) == logical_key:
            kind = "tombstone" if record.value is None else "record"
            run.sink.write_to_stderr(
                f"{partition.name}: the same key in another form is another key for the log "
                f"cleaner: {form.decode()}, its latest {kind} is at offset {record.offset}\n"
            )


LATEST_RECORD_REASON = "latest record for its key"


def _predict_record_outcome(
    record: FieldDict, later_records: list[FieldDict], dirty_range: DirtyRange
) -> tuple[bool, str]:
    """Whether the next cleaning keeps a record, and the reason. later_records: later records of the
    same key."""
    if record.offset >= dirty_range.first_uncleanable_offset:
        if not later_records:
            return True, LATEST_RECORD_REASON
        return True, f"not cleanable yet: {dirty_range.uncleanable_reason}"
    superseding_record = next(
        (
            later_record
            for later_record in reversed(later_records)
            if later_record.offset < dirty_range.first_uncleanable_offset
        ),
        None,
    )
    if superseding_record is not None:
        return (
            False,
            f"superseded by offset {superseding_record.offset}: removed by the next cleaning",
        )
    if later_records:
        reason = f"superseded by offset {later_records[-1].offset}"
        return True, f"{reason}, which is not cleanable yet: {dirty_range.uncleanable_reason}"
    if record.value_size < 0:
        return True, f"{LATEST_RECORD_REASON}: a tombstone, removed at its delete horizon"
    return True, LATEST_RECORD_REASON
