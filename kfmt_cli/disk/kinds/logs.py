"""Files of record batches; `log/reader.py` reads them."""

from __future__ import annotations

import re

from kfmt_cli.disk.kinds.kind import DELETED, Kind, Level
from kfmt_cli.rows.types.batch import BATCH
from kfmt_cli.rows.types.record import RECORD

LOG = Kind("log", Level.SEGMENT, suffix=".log", row_types=(BATCH, RECORD), holds_batches=True)
KRAFT_SNAPSHOT = Kind(
    "kraft_snapshot",
    Level.PARTITION,
    pattern=re.compile(r"^(\d{20}-\d{10}(-\d+)?|bootstrap)\.checkpoint$"),
    pattern_words=("OFFSET-EPOCH.checkpoint", "bootstrap.checkpoint"),
    row_types=(BATCH, RECORD),
    holds_batches=True,
)
DELETED_LOG = f"{LOG.suffix}{DELETED}"
"""Suffix of a log that a broker marked as deleted and has not removed yet."""
LOGS = frozenset({LOG, KRAFT_SNAPSHOT})
