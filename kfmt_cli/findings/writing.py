"""What is said of files that are written."""

from __future__ import annotations

from kfmt_cli.findings.finding import Severity, code

_note = Severity.NOTE

PRODUCERS_UNKNOWN = code(
    "producers-unknown",
    _note,
    "What producers did before this log begins is not known.",
    "No producer snapshot is written, and the transaction index has only those transactions "
    "that begin in the logs given. Give the whole partition, or put the snapshot next to the log.",
)
