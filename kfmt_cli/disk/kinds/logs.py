"""Files of record batches; `log/reader.py` reads them."""

from __future__ import annotations

import re

from kfmt_cli.disk.kinds.kind import DELETED_SUFFIX, FileKind, FileLevel
from kfmt_cli.rows.types.batch import BATCH_ROW
from kfmt_cli.rows.types.record import RECORD_ROW

LOG_KIND = FileKind(
    "log", FileLevel.SEGMENT, suffix=".log", row_types=(BATCH_ROW, RECORD_ROW), has_batches=True
)
KRAFT_SNAPSHOT_KIND = FileKind(
    "kraft_snapshot",
    FileLevel.PARTITION,
    pattern=re.compile(r"^(\d{20}-\d{10}(-\d+)?|bootstrap)\.checkpoint$"),
    pattern_labels=("OFFSET-EPOCH.checkpoint", "bootstrap.checkpoint"),
    row_types=(BATCH_ROW, RECORD_ROW),
    has_batches=True,
)
DELETED_LOG_SUFFIX = f"{LOG_KIND.suffix}{DELETED_SUFFIX}"
"""Suffix of a log that a broker marked as deleted and has not removed yet."""
LOG_KINDS = frozenset({LOG_KIND, KRAFT_SNAPSHOT_KIND})
