"""Logs as the browser shows them, without a screen."""

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


def outline_of(log: Path, wanted: BatchFilter | None = None) -> BlockIndex:
    outline = BlockIndex(classify_file(str(log), str(log)), wanted)
    outline.extend()
    return outline


def shown_log(log: Path, width: int = 100, wanted: BatchFilter | None = None) -> LogRowView:
    return LogRowView(outline_of(log, wanted), width)


def content_of(log: Path, row: int = 0) -> SelectedBatch:
    shown = shown_log(log)
    file = shown.index.file
    return SelectedBatch(file, *shown.find_batch(row), find_decoder(file_topic(file)))


def plain(lines: list[str]) -> list[str]:
    return [ANSI.sub("", line) for line in lines]


def big_log(folder: Path, copies: int) -> Path:
    """The batches of orders again and again: several blocks of the reader."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ORDERS.name
    file.write_bytes(ORDERS.read_bytes() * copies)
    return file
