"""Findings about written files."""

from __future__ import annotations

from kfmt_cli.findings.finding import note

PRODUCERS_UNKNOWN = note(
    "producers-unknown",
    "Producer state before the start of this log is unknown.",
    "No producer snapshot is written, and the transaction index covers only transactions that "
    "begin in the given logs. Pass the whole partition, or put the snapshot next to the log.",
)
