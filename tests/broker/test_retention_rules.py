"""Which segments retention deletes, when it deletes the others, and when the active one rolls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kfmt_cli.broker.retention_rules import (
    FROM_FILE_TIME,
    FROM_TIME_INDEX,
    MAX_TIMESTAMP,
    DeletionBounds,
    RetentionSegmentFacts,
    compute_retention,
)
from kfmt_cli.broker.segment_roll import ActiveSegmentFacts, predict_roll
from kfmt_cli.broker.topic_settings import TopicSettings, apply_properties, overridden_fields
from kfmt_cli.errors import UsageError

NOW = 10_000
# Four segments of 100 bytes and ten offsets; their newest records are of 1000, 2000, 3000, 4000.
SEGMENTS = [
    RetentionSegmentFacts(str(base), base, 100, 100 * base + 1000, FROM_TIME_INDEX, base + 10)
    for base in (0, 10, 20, 30)
]
FOREVER = TopicSettings(retention_ms=-1)


def deleted_base_offsets(
    settings: TopicSettings, bounds: DeletionBounds, segments: list[RetentionSegmentFacts]
) -> list[int]:
    verdicts = compute_retention(segments, settings, bounds, NOW)
    assert [verdict.active for verdict in verdicts] == [False] * (len(segments) - 1) + [True]
    return [verdict.segment.base_offset for verdict in verdicts if verdict.deletable]


@pytest.mark.parametrize(
    ("settings", "bounds", "expected"),
    [
        ({}, {}, []),
        # By time: older than, not as old as.
        *(({"retention_ms": 9000}, {}, []), ({"retention_ms": 8999}, {}, [0])),
        *(({"retention_ms": 7999}, {}, [0, 10]), ({"retention_ms": 5999}, {}, [0, 10, 20, 30])),
        ({"retention_ms": 0}, {}, [0, 10, 20, 30]),
        # By size: the log without a segment must still have as many bytes.
        *(({"retention_bytes": 400}, {}, []), ({"retention_bytes": 301}, {}, [])),
        *(({"retention_bytes": 300}, {}, [0]), ({"retention_bytes": 299}, {}, [0])),
        *(({"retention_bytes": 200}, {}, [0, 10]), ({"retention_bytes": 0}, {}, [0, 10, 20, 30])),
        ({"retention_bytes": 500}, {}, []),
        # Both.
        ({"retention_bytes": 300, "retention_ms": 7999}, {}, [0, 10]),
        ({"retention_bytes": 200, "retention_ms": 8999}, {}, [0, 10]),
        # Before the log start offset: all of a segment.
        *(
            ({}, {"log_start_offset": 9}, []),
            ({}, {"log_start_offset": 10}, [0]),
            ({}, {"log_start_offset": 30}, [0, 10, 20]),
        ),
        ({}, {"log_start_offset": 99}, [0, 10, 20]),
        ({"retention_bytes": 200}, {"log_start_offset": 10}, [0, 10]),
        ({"retention_bytes": 300}, {"log_start_offset": 10}, [0]),
        ({"cleanup_policy": frozenset({"compact"}), "retention_ms": 0}, {}, []),
        ({"cleanup_policy": frozenset({"compact"})}, {"log_start_offset": 20}, [0, 10]),
        ({"cleanup_policy": frozenset({"compact"})}, {"log_start_offset": 19}, [0]),
        ({"cleanup_policy": frozenset({"compact", "delete"}), "retention_ms": 8999}, {}, [0]),
        # Held back.
        *(
            ({"retention_ms": 0}, {"high_watermark": 10}, [0]),
            ({"retention_ms": 0}, {"high_watermark": 9}, []),
            ({"retention_ms": 0}, {"high_watermark": 39}, [0, 10, 20]),
            ({"retention_ms": 0}, {"high_watermark": 40}, [0, 10, 20, 30]),
            ({"retention_ms": 0}, {"remote_end_offset": 20}, [0, 10]),
            ({"retention_bytes": 0}, {"remote_end_offset": 19}, [0]),
            ({}, {"log_start_offset": 30, "high_watermark": 20}, [0, 10]),
            (
                {"cleanup_policy": frozenset({"compact"})},
                {"log_start_offset": 30, "high_watermark": 10},
                [0],
            ),
        ),
        # For tiered topics, the local retention.
        ({"local_retention_ms": 0}, {}, []),
        ({"remote": True, "local_retention_ms": 0}, {}, [0, 10, 20, 30]),
        ({"remote": True, "retention_ms": 8999}, {}, [0]),
        ({"remote": True, "local_retention_bytes": 300}, {}, [0]),
        ({"remote": True, "local_retention_ms": -1, "retention_ms": 0}, {}, []),
    ],
)
def test_what_a_check_deletes(
    settings: dict[str, Any], bounds: dict[str, Any], expected: list[int]
) -> None:
    assert (
        deleted_base_offsets(replace(FOREVER, **settings), DeletionBounds(**bounds), SEGMENTS)
        == expected
    )


def test_an_empty_active_segment_stays() -> None:
    empty = [*SEGMENTS[:3], RetentionSegmentFacts("30", 30, 0, 0, FROM_FILE_TIME, 30)]
    assert deleted_base_offsets(TopicSettings(retention_ms=0), DeletionBounds(), empty) == [
        0,
        10,
        20,
    ]
    assert deleted_base_offsets(TopicSettings(retention_bytes=0), DeletionBounds(), empty) == [
        0,
        10,
        20,
    ]
    closed = [RetentionSegmentFacts("0", 0, 0, 0, FROM_FILE_TIME, 0), *SEGMENTS[1:]]
    assert deleted_base_offsets(TopicSettings(retention_ms=8999), DeletionBounds(), closed) == [0]


def test_a_segment_goes_when_it_and_all_before_it_have_expired() -> None:
    """A record of the future keeps its segment and those after it."""
    times = [5000, 90_000, 3000, 95_000]
    segments = [
        replace(segment, largest_timestamp=timestamp)
        for segment, timestamp in zip(SEGMENTS, times, strict=True)
    ]
    verdicts = compute_retention(segments, TopicSettings(retention_ms=8000), DeletionBounds(), NOW)
    assert [verdict.deletable_at for verdict in verdicts] == [13_001, 98_001, 98_001, 103_001]
    verdicts = compute_retention(segments, TopicSettings(retention_ms=4999), DeletionBounds(), NOW)
    assert [verdict.deletable for verdict in verdicts] == [True, False, False, False]
    assert [verdict.deletable_at for verdict in verdicts] == [10_000, 94_999 + 1, 95_000, 100_000]
    for settings in (FOREVER, TopicSettings(cleanup_policy=frozenset({"compact"}))):
        assert [
            verdict.deletable_at
            for verdict in compute_retention(segments, settings, DeletionBounds(), NOW)
        ] == [None] * 4
    endless = replace(segments[0], largest_timestamp=MAX_TIMESTAMP - 5)
    (verdict,) = compute_retention([endless], TopicSettings(retention_ms=10), DeletionBounds(), NOW)
    assert verdict.deletable_at == MAX_TIMESTAMP


ACTIVE = ActiveSegmentFacts("0.log", 100, 1000, 5000, 6000, 150, 3, 3)
SETTINGS = TopicSettings(segment_ms=10_000, segment_bytes=50_000, segment_index_bytes=960)


@pytest.mark.parametrize(
    ("changes", "now", "reason", "at_time"),
    [
        ({}, NOW, "time", 15_001),
        ({"size": 1000, "last_time": 5100}, NOW, "size", 15_001),  # 49 000 bytes more in 4.9 s
        ({"size": 1000, "last_time": 5200}, NOW, "size", 15_001),  # at 15 000
        ({"size": 1000, "last_time": 5201}, NOW, "time", 15_001),
        ({}, 15_000, "time", 15_001),
        ({"size": 50_000}, NOW, "size", 15_001),
        ({"size": 49_999, "last_time": 5000}, NOW, "time", 15_001),
        *(
            ({"n_offset_entries": 119}, NOW, "time", 15_001),
            ({"n_offset_entries": 120}, NOW, "index", 15_001),
        ),
        *(
            ({"n_time_entries": 78}, NOW, "time", 15_001),
            ({"n_time_entries": 79}, NOW, "index", 15_001),
        ),
        ({"last_offset": 100 + (1 << 31) - 2}, NOW, "time", 15_001),
        ({"last_offset": 100 + (1 << 31) - 1}, NOW, "offset", 15_001),
        *(({"first_time": 0}, 500, "time", 10_001), ({"first_time": -1}, NOW, "size", None)),
        *(({"first_time": None}, NOW, "size", None), ({"size": 0}, NOW, "size", None)),
        ({"last_time": None}, NOW, "time", 15_001),
    ],
)
def test_what_rolls_the_active_segment_next(
    changes: dict[str, Any], now: int, reason: str, at_time: int | None
) -> None:
    roll = predict_roll(replace(ACTIVE, **changes), SETTINGS, now, is_everything_expired=False)
    assert (roll.name, roll.reason) == ("0.log", reason)
    assert (roll.at_bytes, roll.at_time) == (50_000, at_time)


def test_an_expired_segment_rolls_whatever_else() -> None:
    full = replace(ACTIVE, size=50_000, n_offset_entries=500)
    assert predict_roll(full, SETTINGS, NOW, is_everything_expired=True).reason == "retention"
    roll = predict_roll(ACTIVE, SETTINGS, 15_001, is_everything_expired=False)
    assert roll.description.startswith("at the next append")
    assert not predict_roll(
        ACTIVE, SETTINGS, 15_000, is_everything_expired=False
    ).description.startswith("at the next")


@pytest.mark.parametrize(
    ("properties", "changes"),
    [
        ({}, {}),
        ({"retention.ms": "5"}, {"retention_ms": 5}),
        ({"log.retention.hours": "2"}, {"retention_ms": 7_200_000}),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, {"retention_ms": 180_000}),
        ({"log.retention.minutes": "3", "log.retention.ms": "7"}, {"retention_ms": 7}),
        ({"retention.ms": "5", "log.retention.ms": "7"}, {"retention_ms": 5}),
        ({"log.roll.hours": "1"}, {"segment_ms": 3_600_000}),
        (
            {"cleanup.policy": "compact, delete"},
            {"cleanup_policy": frozenset({"compact", "delete"})},
        ),
        ({"remote.storage.enable": "true", "local.retention.bytes": "-2"}, {"remote": True}),
        ({"min.cleanable.dirty.ratio": "0.25"}, {"min_cleanable_ratio": 0.25}),
        ({"unknown": "1"}, {}),
    ],
)
def test_properties_of_topics_win_over_those_of_brokers(
    properties: dict[str, str], changes: dict[str, object]
) -> None:
    assert apply_properties(TopicSettings(), properties) == replace(TopicSettings(), **changes)  # type: ignore[arg-type]
    assert overridden_fields(properties) >= set(changes)


def test_a_value_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="retention"):
        apply_properties(TopicSettings(), {"retention.ms": "soon"})
