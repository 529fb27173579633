"""Commands read a log directory that a real broker writes, rolls, deletes and compacts.

    KFMT_LIVE_MINUTES=30 pytest tests/interop/test_live_reading.py -m "" -n 0 -s

prints the table of commands, runs and false findings.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.support.live_reading import (
    BROKER_SETTINGS,
    Load,
    format_table,
    iter_false_statements,
    quiet_tallies,
    read_in_turn,
)
from tools import kafka, live

pytestmark = [
    pytest.mark.interop,
    pytest.mark.brokers,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
MINUTES = float(os.environ.get("KFMT_LIVE_MINUTES", "1"))
RATE = 600  # records a second and topic
N_PROCESSES = 2


@pytest.mark.timeout(MINUTES * 60 + 900)
@pytest.mark.parametrize("version", [kafka.VERSION, kafka.NEWEST])
def test_a_live_directory_has_no_false_findings(version: str, tmp_path: Path) -> None:
    """No finding, and no exit code, that the same directory does not have when it is quiet."""
    pytest.importorskip("confluent_kafka")
    data = tmp_path / "data"
    live.format_storage(version, data, tmp_path)
    with live.live(version, data, tmp_path, BROKER_SETTINGS) as broker:
        load = Load(broker, RATE)
        load.create_topics()
        load.start()
        end = time.monotonic() + MINUTES * 60
        time.sleep(min(10, MINUTES * 10))
        tallies = read_in_turn(data, lambda: time.monotonic() > end, N_PROCESSES)
        load.stop()
    quiet = quiet_tallies(data, tmp_path)
    table_lines = [*format_table(tallies, quiet), f"{load.records} records", ""]
    sys.stderr.write("\n" + "\n".join(table_lines))
    false_statements = [
        f"{' '.join(command)}: {statement}"
        for command, tally in tallies.items()
        for statement in iter_false_statements(tally, quiet[command])
    ]
    assert not false_statements, "\n".join(false_statements)
