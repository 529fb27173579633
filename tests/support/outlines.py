"""Logs as the browser shows them, without a screen."""

from __future__ import annotations

import re
from pathlib import Path

from kfmt_cli.browse.batch_content import BatchContent
from kfmt_cli.browse.batch_positions import Outline
from kfmt_cli.browse.shown_log import ShownLog
from kfmt_cli.browse.wanted_batches import WantedBatches
from kfmt_cli.disk.tree import classify, topic_of
from kfmt_cli.topics import decoder_for
from tests.support.samples import ORDERS
from tools.kafka import ROOT, SAMPLES

DAMAGED = sorted((ROOT / "damaged_segments").rglob("*.log"))
GROUPS = SAMPLES / "kafka-3.9.1-broker1/__consumer_offsets-1/00000000000000000000.log"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def outline_of(log: Path, wanted: WantedBatches | None = None) -> Outline:
    outline = Outline(classify(str(log), str(log)), wanted)
    outline.grow()
    return outline


def shown_log(log: Path, width: int = 100, wanted: WantedBatches | None = None) -> ShownLog:
    return ShownLog(outline_of(log, wanted), width)


def content_of(log: Path, row: int = 0) -> BatchContent:
    shown = shown_log(log)
    file = shown.outline.file
    return BatchContent(file, *shown.find(row), decoder_for(topic_of(file)))


def plain(lines: list[str]) -> list[str]:
    return [ANSI.sub("", line) for line in lines]


def big_log(folder: Path, copies: int) -> Path:
    """The batches of orders again and again: several blocks of the reader."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ORDERS.name
    file.write_bytes(ORDERS.read_bytes() * copies)
    return file
