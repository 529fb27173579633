"""The topic settings that decide on deletion and compaction, with Kafka's defaults.

They come from topic or broker properties; broker properties have other names. Source:
`org.apache.kafka.storage.internals.log.LogConfig`, `ServerTopicConfigSynonyms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from kfmt_cli.broker.defaults import SEGMENT_BYTES, SEGMENT_INDEX_BYTES, SEGMENT_MS
from kfmt_cli.errors import UsageError

_HOUR = 3_600_000
_MINUTE = 60_000
DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Times are in milliseconds. -1: no limit. -2, for local retention: the limit of the topic."""

    retention_ms: int = 7 * DAY
    retention_bytes: int = -1
    segment_ms: int = SEGMENT_MS
    segment_bytes: int = SEGMENT_BYTES
    segment_index_bytes: int = SEGMENT_INDEX_BYTES
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    """The cleanup policies."""
    remote: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    min_cleanable_ratio: float = 0.5
    delete_retention_ms: int = DAY
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the log is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def kept_ms(self) -> int:
        """How long a segment is kept on this disk."""
        return self.local_retention_ms if self._has_local_ms else self.retention_ms

    @property
    def time_limit(self) -> str:
        """The name of the setting used for `kept_ms`."""
        return f"{'local.' if self._has_local_ms else ''}retention.ms"

    @property
    def _has_local_ms(self) -> bool:
        return self.remote and self.local_retention_ms != -2

    @property
    def kept_bytes(self) -> int:
        """How many bytes are kept on this disk."""
        return self.local_retention_bytes if self._has_local_bytes else self.retention_bytes

    @property
    def size_limit(self) -> str:
        """The name of the setting used for `kept_bytes`."""
        return f"{'local.' if self._has_local_bytes else ''}retention.bytes"

    @property
    def _has_local_bytes(self) -> bool:
        return self.remote and self.local_retention_bytes != -2

    def named(self, name: str) -> object:
        """The value of a setting by its topic name, as in a topic configuration."""
        value = getattr(self, TOPIC_FIELDS[name])
        return ",".join(sorted(value)) if name == "cleanup.policy" else value


# Topic setting to field: most are spelled alike.
_OTHERS = {"remote": "remote.storage.enable", "min_cleanable_ratio": "min.cleanable.dirty.ratio"}
TOPIC_FIELDS = {
    _OTHERS.get(field.name, field.name.replace("_", ".")): field.name
    for field in fields(TopicSettings)
}
# Broker setting to field and factor. Later entries win: a broker prefers milliseconds to minutes
# and minutes to hours.
_BROKER = {
    "log.retention.hours": ("retention_ms", _HOUR),
    "log.retention.minutes": ("retention_ms", _MINUTE),
    "log.retention.ms": ("retention_ms", 1),
    "log.retention.bytes": ("retention_bytes", 1),
    "log.roll.hours": ("segment_ms", _HOUR),
    "log.roll.ms": ("segment_ms", 1),
    "log.segment.bytes": ("segment_bytes", 1),
    "log.index.size.max.bytes": ("segment_index_bytes", 1),
    "log.cleanup.policy": ("cleanup_policy", 1),
    "log.local.retention.ms": ("local_retention_ms", 1),
    "log.local.retention.bytes": ("local_retention_bytes", 1),
    "log.cleaner.min.cleanable.ratio": ("min_cleanable_ratio", 1),
    "log.cleaner.delete.retention.ms": ("delete_retention_ms", 1),
    "log.cleaner.min.compaction.lag.ms": ("min_compaction_lag_ms", 1),
    "log.cleaner.max.compaction.lag.ms": ("max_compaction_lag_ms", 1),
}


def with_properties(settings: TopicSettings, given: Mapping[str, str]) -> TopicSettings:
    """The settings with broker properties applied, then topic properties; raises UsageError."""
    changes: dict[str, object] = {}
    for name, (field, factor) in _BROKER.items():
        if name in given:
            changes[field] = _value(name, field, given[name], factor)
    for name, field in TOPIC_FIELDS.items():
        if name in given:
            changes[field] = _value(name, field, given[name], 1)
    return replace(settings, **changes)  # type: ignore[arg-type]


def fields_in(given: Mapping[str, str]) -> set[str]:
    """The fields that broker or topic properties set."""
    named = {**TOPIC_FIELDS, **{name: field for name, (field, _) in _BROKER.items()}}
    return {field for name, field in named.items() if name in given}


def policies_in(text: str) -> frozenset[str]:
    """The policies in a value of cleanup.policy."""
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _value(name: str, field: str, text: str, factor: int) -> object:
    try:
        if field == "cleanup_policy":
            return policies_in(text)
        if field == "remote":
            return text.strip().lower() == "true"
        if field == "min_cleanable_ratio":
            return float(text)
        number = int(text)
    except ValueError:
        raise UsageError(f"{name}={text}: not a number") from None
    return number * factor if number >= 0 else number
