"""retention: its rules, the sources of its settings, and its output."""

from __future__ import annotations

import os
import re
import shutil
import struct
from pathlib import Path

import pytest

from kfmt_cli.broker.retention_rules import (
    FROM_FILE_TIME,
    FROM_TIME_INDEX,
    DeletionBounds,
    RetentionSegmentFacts,
    compute_retention,
)
from kfmt_cli.broker.segment_roll import ActiveSegmentFacts, predict_roll
from kfmt_cli.broker.topic_settings import DAY_MS, TopicSettings, apply_properties
from kfmt_cli.commands.retention.command import read_active_segment
from kfmt_cli.core.times import format_time
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.errors import UsageError
from tests.support.samples import kfmt
from tools.kafka import SAMPLES

ORDERS = SAMPLES / "kafka-3.9.1-broker1/orders-0"
NOW = 100 * DAY_MS
FOREVER = TopicSettings(retention_ms=-1)


def segments(*days_old: float, size: int = 100) -> list[RetentionSegmentFacts]:
    """Segments of ten offsets and one hundred bytes each, with these ages in days."""
    return [
        RetentionSegmentFacts(
            f"{i}.log", 10 * i, size, int(NOW - age * DAY_MS), FROM_TIME_INDEX, 10 * i + 10
        )
        for i, age in enumerate(days_old)
    ]


def deletable_indexes(
    segment_times: list[RetentionSegmentFacts], settings: TopicSettings, bounds: DeletionBounds
) -> list[int]:
    """The indexes of the segments that retention deletes."""
    verdicts = compute_retention(segment_times, settings, bounds, NOW)
    return [i for i, verdict in enumerate(verdicts) if verdict.deletable]


@pytest.mark.parametrize(
    ("ages", "settings", "bounds", "expected"),
    [
        ((9, 8, 6, 1), TopicSettings(), DeletionBounds(), [0, 1]),
        ((9, 6, 8, 1), TopicSettings(), DeletionBounds(), [0]),
        ((9, 8, 8, 8), TopicSettings(), DeletionBounds(), [0, 1, 2, 3]),
        ((-1, 9, 9, 9), TopicSettings(), DeletionBounds(), []),
        ((9, 8, 8, 1), TopicSettings(), DeletionBounds(high_watermark=15), [0]),
        ((9, 8, 8, 1), TopicSettings(), DeletionBounds(remote_end_offset=20), [0, 1]),
        ((9, 8, 8, 1), TopicSettings(cleanup_policy=frozenset({"compact"})), DeletionBounds(), []),
        (
            (9, 8),
            TopicSettings(cleanup_policy=frozenset({"compact", "delete"})),
            DeletionBounds(),
            [0, 1],
        ),
        ((1, 1, 1, 1), TopicSettings(retention_bytes=200), DeletionBounds(), [0, 1]),
        ((1, 1, 1, 1), TopicSettings(retention_bytes=201), DeletionBounds(), [0]),
        ((1, 1, 1, 1), FOREVER, DeletionBounds(log_start_offset=20), [0, 1]),
        ((1, 1, 1, 1), FOREVER, DeletionBounds(log_start_offset=19), [0]),
        ((9, 1), TopicSettings(remote=True, local_retention_ms=10 * DAY_MS), DeletionBounds(), []),
    ],
)
def test_the_rules(
    ages: tuple[float, ...], settings: TopicSettings, bounds: DeletionBounds, expected: list[int]
) -> None:
    assert deletable_indexes(segments(*ages), settings, bounds) == expected


def test_why_and_when() -> None:
    verdicts = compute_retention(segments(6, 9, 1), TopicSettings(), DeletionBounds(), NOW)
    assert [verdict.deletable for verdict in verdicts] == [False, False, False]
    assert verdicts[0].deletable_at == verdicts[1].deletable_at == NOW + DAY_MS + 1
    assert "earlier segment" in verdicts[1].why
    assert "active" in verdicts[2].why
    (future,) = compute_retention(segments(-3), TopicSettings(), DeletionBounds(), NOW)
    assert "in the future" in future.why
    empty = RetentionSegmentFacts("0.log", 0, 0, 0, FROM_FILE_TIME, 0, "its time index is empty")
    assert not compute_retention([empty], TopicSettings(), DeletionBounds(), NOW)[0].deletable


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "time"),
        ({"size": 1 << 30}, "size"),
        ({"n_offset_entries": 10 << 17}, "index"),
        ({"last_offset": (1 << 31) + 4}, "offset"),
        ({"last_time": NOW - DAY_MS // 2 + 1000, "size": 900 << 20}, "size"),
        ({"first_time": NOW - 8 * DAY_MS}, "time"),
        ({"first_time": None}, "size"),
    ],
)
def test_what_rolls_next(changes: dict[str, int | None], reason: str) -> None:
    facts = {
        "size": 1000,
        "first_time": NOW - DAY_MS // 2,
        "last_time": NOW,
        "last_offset": 10,
        "n_offset_entries": 1,
        "n_time_entries": 1,
    }
    active = ActiveSegmentFacts("0.log", 5, **(facts | changes))  # type: ignore[arg-type]
    assert predict_roll(active, TopicSettings(), NOW, is_everything_expired=False).reason == reason
    assert (
        predict_roll(active, TopicSettings(), NOW, is_everything_expired=True).reason == "retention"
    )


def test_settings() -> None:
    broker = {"log.retention.hours": "2", "log.retention.minutes": "3", "log.roll.hours": "1"}
    settings = apply_properties(TopicSettings(), broker)
    assert (settings.retention_ms, settings.segment_ms) == (180_000, 3_600_000)
    settings = apply_properties(
        settings, {"retention.ms": "5", "cleanup.policy": "compact, delete"}
    )
    assert (settings.retention_ms, settings.cleanup_policy) == (5, frozenset({"compact", "delete"}))
    with pytest.raises(UsageError):
        apply_properties(settings, {"retention.ms": "long"})


def test_the_metadata_log_beside_has_the_settings() -> None:
    rows = kfmt("compaction", SAMPLES / "kafka-3.9.1-broker1/compacted-0", "--json")
    assert rows.of("compaction")[0]["cleanup_policy"] == ["compact"]


def test_a_table_and_objects(tmp_path: Path) -> None:
    copy = tmp_path / "orders-0"
    shutil.copytree(ORDERS, copy)
    result = kfmt("retention", copy, "--json", "--now", "2023-11-25T00:00")
    rows = result.of("retention")
    assert [row["base_offset"] for row in rows] == list(range(0, 1500, 240))
    assert all(row["deletable"] for row in rows)
    assert [row["active"] for row in rows] == [False] * 6 + [True]
    (roll,) = result.of("roll")
    assert (roll["reason"], roll["at_bytes"]) == ("retention", 1 << 30)
    assert result.of("freed")[0]["bytes_now"] == sum(row["bytes"] for row in rows)
    text_result = kfmt("retention", copy, "--now", "2023-11-15")
    assert "kept until 2023-11-21" in text_result.out
    assert "by 2023-11-21" in text_result.out
    index = copy / f"{240:020}.timeindex"
    index.write_bytes(index.read_bytes() + bytes(24))
    rows = kfmt("retention", copy, "--json", "--now", "2023-11-15").of("retention")
    assert (rows[1]["largest_timestamp"], rows[1]["timestamp_source"]) == (0, "time-index")
    index.write_bytes(b"")
    rows = kfmt("retention", copy, "--json").of("retention")
    assert rows[1]["timestamp_source"] == "file-time"
    assert kfmt("retention", tmp_path / "nothing").code == 3


def test_a_setting_says_where_it_comes_from(tmp_path: Path) -> None:
    samples = SAMPLES / "kafka-3.9.1-broker1"
    for name in ("__cluster_metadata-0", "orders-0"):
        shutil.copytree(samples / name, tmp_path / name)
    options = ("--retention-ms", "5", "--json")
    row = kfmt("retention", tmp_path / "orders-0", *options).of("retention")[0]
    assert row["settings"]["retention.ms"] == {"value": 5, "source": "option"}
    assert row["settings"]["retention.bytes"]["source"] == "Kafka's default"
    result = kfmt("retention", tmp_path / "__cluster_metadata-0", "--json")
    assert result.of("retention") == []
    assert "does not apply to the metadata log" in result.err


@pytest.mark.parametrize(
    "options",
    [("--retention-bytes", "100000"), ("--retention-bytes", "0"), ("--retention-ms", "60000"), ()],
    ids=" ".join,
)
def test_the_sum_is_that_of_the_segments(options: tuple[str, ...]) -> None:
    for now in ("2023-11-15", "2023-11-21T22:20", "2026-11-25"):
        result = kfmt("retention", ORDERS.parent, "--now", now, *options, "--json")
        rows, (freed,) = result.of("retention"), result.of("freed")
        deletable_now = [row for row in rows if row["deletable"]]
        deletable_later = [row for row in rows if not row["deletable"] and row["deletable_at"]]
        far_future = [row for row in deletable_later if row["odd"]]
        deletable_later = [row for row in deletable_later if row not in far_future]
        assert freed["bytes_now"] == sum(row["bytes"] for row in deletable_now)
        assert freed["bytes_later"] == sum(row["bytes"] for row in deletable_later)
        assert freed["bytes_odd"] == sum(row["bytes"] for row in far_future)


NOW_OPTION = ("--now", "2026-11-23T15:00")


def test_an_empty_active_segment_has_no_date() -> None:
    empty = SAMPLES / "kafka-3.9.1-broker1/empty-0"
    (row,) = kfmt("retention", empty, *NOW_OPTION, "--json").of("retention")
    assert (row["active"], row["bytes"], row["deletable_at"]) == (True, 0, None)
    assert (
        "kept: it is the active segment, which is empty"
        in kfmt("retention", empty, *NOW_OPTION).out
    )


def test_bars_have_dates_at_which_something_goes() -> None:
    rows = kfmt("retention", ORDERS.parent, *NOW_OPTION, "--json").of("retention")
    dates = {format_time(row["deletable_at"])[:19] for row in rows if row["deletable_at"]}
    output = kfmt("retention", ORDERS.parent, *NOW_OPTION).out
    bar_dates = re.findall(r"   by (\S+ \S+)  ", output)
    assert 1 < len(bar_dates) <= 8
    assert set(bar_dates) <= dates
    assert bar_dates[-1] == "2026-11-27 15:25:15"


def test_times_far_ahead_are_odd_and_in_no_sum() -> None:
    weird = SAMPLES / "kafka-3.9.1-broker1/weird-times-0"
    result = kfmt("retention", weird, *NOW_OPTION, "--json")
    assert [row["odd"] for row in result.of("retention")] == [False, True, True]
    (freed,) = result.of("freed")
    assert (freed["bytes_now"], freed["bytes_later"], freed["bytes_odd"]) == (161, 0, 314)
    output = kfmt("retention", weird, *NOW_OPTION).out
    assert "kept until 2100-01-08 00:00:00, unusually late" in output
    assert "314 bytes kept much longer because of timestamps in the future" in output
    assert " by 2" not in output
    usage_rows = kfmt("stat", weird.parent, "--json").of("disk_usage")
    logs = next(row for row in usage_rows if row["purpose"] == "logs")
    assert logs["freed_odd"] == 314
    assert logs["freed_by"] is None or logs["freed_by"] < 1_800_000_000_000
    assert "after the year 9999" not in kfmt("stat", weird.parent).out


def test_the_active_segment_ends_after_its_last_record() -> None:
    logs = list_directory(str(ORDERS)).logs
    active, end = read_active_segment(logs[-1])
    assert (active.last_offset, end) == (1499, 1500)


def test_a_segment_is_judged_among_all_of_its_partition() -> None:
    directory = SAMPLES / "kafka-3.9.1-broker1/orders-0"
    logs = sorted(directory.glob("*.log"))
    rows = kfmt("retention", directory, "--json").of("retention")
    for selected in ([logs[1]], [logs[0], logs[-1]]):
        result = kfmt("retention", *selected, "--json")
        names = {str(log) for log in selected}
        assert result.of("retention") == [row for row in rows if row["file"] in names]
        assert len(result.of("roll")) == (logs[-1] in selected)


def test_segments_that_are_not_in_remote_storage_yet_are_kept(tmp_path: Path) -> None:
    """Remote storage ends at offset 3731."""
    broker = tmp_path / "broker"
    shutil.copytree(SAMPLES / "kafka-3.9.1-tiered/broker", broker)
    checkpoint = broker / "replication-offset-checkpoint"
    checkpoint.write_text(re.sub(r"vault 0 \d+", "vault 0 3752", checkpoint.read_text()))
    batch = (SAMPLES / "kafka-3.9.1-broker1/orders-0" / f"{0:020}.log").read_bytes()
    batch = batch[: 12 + struct.unpack_from(">i", batch, 8)[0]]
    for base_offset in (3712, 3732, 3752):
        data = bytearray(batch if base_offset < 3752 else b"")
        data[:8] = struct.pack(">q", base_offset) if data else b""
        log = broker / f"vault-0/{base_offset:020}.log"
        log.write_bytes(bytes(data))
        os.utime(log, (1, 1))
    result = kfmt("retention", broker / "vault-0", "--json")
    deletable = {row["base_offset"]: row["deletable"] for row in result.of("retention")}
    assert deletable == {3712: True, 3732: False, 3752: False}
    reasons = [row["why"] for row in result.of("retention")]
    assert reasons[1] == "it has not been copied to remote storage yet"
    for directory in broker.glob("__remote_log_metadata-*"):
        shutil.rmtree(directory)
    result = kfmt("retention", broker / "vault-0", "--json")
    first, second, _ = result.of("retention")
    assert first["deletable"]
    assert second["deletable"]
    assert "if remote storage has it, which is unknown" in second["why"]


def test_a_log_under_another_name_is_judged_by_itself(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", directory)
    shutil.copy(directory / f"{240:020}.log", directory / "copy.log")
    (row,) = kfmt("retention", directory / "copy.log", "--json").of("retention")
    assert (row["file"], row["active"]) == (str(directory / "copy.log"), True)
