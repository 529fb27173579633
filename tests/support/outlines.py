"""The browser's models of logs, without a screen."""

from __future__ import annotations

import re
from pathlib import Path

from kfmt_cli.browse.batch_filter import BatchFilter
from kfmt_cli.browse.block_index import BlockIndex
from kfmt_cli.browse.log_row_view import LogRowView
from kfmt_cli.browse.selected_batch import SelectedBatch
from kfmt_cli.disk.directory_listing import classify_file, file_topic
from kfmt_cli.topics import find_decoder
from tests.support.samples import ORDERS
from tools.kafka import ROOT, SAMPLES

DAMAGED = sorted((ROOT / "damaged_segments").rglob("*.log"))
GROUPS = SAMPLES / "kafka-3.9.1-broker1/__consumer_offsets-1/00000000000000000000.log"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def block_index(log: Path, batch_filter: BatchFilter | None = None) -> BlockIndex:
    outline = BlockIndex(classify_file(str(log), str(log)), batch_filter)
    outline.extend_index()
    return outline


def log_row_view(
    log: Path, width: int = 100, batch_filter: BatchFilter | None = None
) -> LogRowView:
    return LogRowView(block_index(log, batch_filter), width)


def selected_batch(log: Path, row: int = 0) -> SelectedBatch:
    view = log_row_view(log)
    file = view.block_index.file
    return SelectedBatch(file, *view.locate_batch(row), find_decoder(file_topic(file)))


def without_ansi(lines: list[str]) -> list[str]:
    return [ANSI.sub("", line) for line in lines]


def big_log(directory: Path, copies: int) -> Path:
    """A log with copies of the batches of orders-0: several blocks of the reader."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / ORDERS.name
    file.write_bytes(ORDERS.read_bytes() * copies)
    return file
