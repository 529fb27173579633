"""What real consumers do at a committed offset that the log does not contain, and what `kfmt state`
and `kfmt check` say about it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import kfmt
from tools.kafka import NEWEST, VERSION, compiled, java, missing
from tools.live import Live, format_storage, live

pytestmark = [
    pytest.mark.interop,
    pytest.mark.brokers,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
INTEROP = Path(__file__).parent
OUT_OF_RANGE = "OffsetOutOfRangeException"
RESET = {"earliest": "from 5", "latest": "waits at 10", "none": OUT_OF_RANGE}
# What a consumer does that starts at each offset of a log with offsets 5 to 9, by its
# auto.offset.reset; then its lag and range.
OUTCOMES: dict[int, tuple[dict[str, str], int, str]] = {
    2: (RESET, 5, "below log start"),
    7: (dict.fromkeys(RESET, "from 7"), 3, "in range"),
    10: (dict.fromkeys(RESET, "waits at 10"), 0, "in range"),
    999: (RESET, 0, "beyond log end"),
}
SHARE_OUTCOMES = {2: "from 5", 7: "from 7", 999: "nothing"}


def run_java(broker: Live, program: str, *arguments: str) -> dict[str, str]:
    """The result of each group of a program."""
    classes = compiled(broker.version, INTEROP / f"{program}.java")
    command = java(broker.version, program, broker.address, *arguments, classes=classes)
    result = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 0, result.stderr
    return dict(line.split(" ", 1) for line in result.stdout.splitlines())


@pytest.mark.parametrize("version", [VERSION, NEWEST])
def test_consumers_at_offsets_out_of_range(version: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    format_storage(version, data, tmp_path)
    protocols = ("classic",) if version == VERSION else ("classic", "consumer")
    settings = {
        "offsets.topic.num.partitions": "1",
        "log.initial.task.delay.ms": "100",
        "log.flush.start.offset.checkpoint.interval.ms": "200",
    }
    with live(version, data, tmp_path, settings) as broker:
        outcomes = run_java(broker, "OffsetRanges", ",".join(protocols))
        share_outcomes = run_java(broker, "ShareOffsetRanges") if version == NEWEST else {}
    expected_rows: dict[str, tuple[Any, ...]] = {}
    for offset, (outcome_by_policy, lag, offset_range) in OUTCOMES.items():
        for protocol in protocols:
            for policy, outcome in outcome_by_policy.items():
                group = f"{protocol}-{policy}-{offset}"
                assert outcomes[group] == outcome, group
                expected_rows[group] = (offset, 5, 10, lag, offset_range)
    assert share_outcomes == (
        {f"share-{offset}": outcome for offset, outcome in SHARE_OUTCOMES.items()}
        if share_outcomes
        else {}
    )
    columns = ("offset", "log_start_offset", "log_end_offset", "lag", "range")
    rows = kfmt("state", data, "--json").of("committed_offset")
    assert {row["group"]: tuple(map(row.get, columns)) for row in rows} == expected_rows
    findings = kfmt("check", data, "--json", "--notes").of("finding")
    messages = [row["message"] for row in findings if row["code"].startswith("committed-offset")]
    out_of_range = {group for group, row in expected_rows.items() if row[4] != "in range"}
    assert {message.split()[1] for message in messages if message[:5] == "group"} == out_of_range
