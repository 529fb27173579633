"""`kfmt find --timestamp` names the offset that a real broker answers, if it is another one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.interop.test_state import CONFIGS, PRODUCER, TOPICS
from tests.support.samples import kfmt
from tests.support.timestamp_cases import LATE_MS, PROBES, TimestampCase, timestamp_cases
from tools import kafka
from tools.live import format_storage, live
from tools.observe import Given, Plan, Start, observe

GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def predicted_answer(case: TimestampCase, timestamp: int, directory: Path) -> int | str | None:
    """The answer of a broker according to kfmt."""
    partition = directory / "given-0"
    partition.mkdir(parents=True, exist_ok=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
        modified = case.modified.get(file, LATE_MS) / 1000
        os.utime(partition / file, (modified, modified))
    result = kfmt("find", partition, "--timestamp", str(timestamp), "--json")
    other = re.search(r"a broker returns (no offset|offset (\d+)|an error)", result.err)
    if other is None:
        rows = result.of("found")
        return int(rows[0]["offset"]) if rows else None
    return int(other[2]) if other[2] else None if other[1] == "no offset" else other[1]


@pytest.mark.interop
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
@pytest.mark.parametrize("version", ["3.9.1", kafka.NEWEST])
def test_a_broker_answers_what_find_says(version: str, tmp_path: Path) -> None:
    cases = list(timestamp_cases())
    partitions = {
        f"given{i}": Given(
            case.files,
            1500,
            (),
            times=PROBES,
            modified=dict.fromkeys(case.files, LATE_MS) | case.modified,
        )
        for i, case in enumerate(cases)
    }
    (outcome,) = observe([Plan(Start.CLEAN, partitions)], version)
    assert outcome.up, outcome.errors
    for i, case in enumerate(cases):
        answers = [predicted_answer(case, probe, tmp_path / f"{i}") for probe in PROBES]
        assert answers == outcome.partitions[f"given{i}"].times, case.description


@pytest.mark.interop
@pytest.mark.brokers
@pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))
def test_a_lookup_fails_at_a_record_that_is_larger_than_its_topic_allows(tmp_path: Path) -> None:
    data, timestamps = tmp_path / "data", {}
    producer_options = ("--num-records", "9", "--record-size", "900", "--throughput", "-1")
    format_storage(kafka.NEWEST, data, tmp_path)
    with live(kafka.NEWEST, data, tmp_path) as broker:
        for codec in ("gzip", "none"):
            broker.command(TOPICS, "--create", "--topic", codec)
            properties = (f"bootstrap.servers={broker.address}", f"compression.type={codec}")
            broker.command(
                *(PRODUCER, "--topic", codec, *producer_options, "--producer-props", *properties),
                bootstrap=False,
            )
            limit = ("--add-config", "max.decompressed.message.bytes=500")
            broker.command(
                CONFIGS, *("--alter", "--entity-type", "topics", "--entity-name"), codec, *limit
            )
            rows = kfmt("dump", data / f"{codec}-0", "--records", "--json").of("record")
            timestamps[codec] = str(rows[-1]["timestamp"])
        answers = {
            codec: broker.ran(GET_OFFSETS, "--topic", codec, "--time", timestamp)
            for codec, timestamp in timestamps.items()
        }
        broker.kill()
    assert "InvalidRecordException" in answers["gzip"].stderr
    assert re.fullmatch(r"none:0:\d\s*", answers["none"].stdout)
    for codec, timestamp in timestamps.items():
        for index in (data / f"{codec}-0").glob("*index"):
            index.unlink()  # the start after this one builds them
        result = kfmt("find", data / f"{codec}-0", "--timestamp", timestamp, "--json")
        reason = (
            r"max\.decompressed\.message\.bytes is 500 and the record at offset \d has 907 bytes"
        )
        error = re.search(f"an error for this timestamp: since Kafka 4.4, {reason}", result.err)
        assert (error is not None) == (codec == "gzip"), result.err
        offset = result.of("found")[0]["offset"]
        assert codec == "gzip" or answers["none"].stdout.strip() == f"none:0:{offset}"
