"""The topic settings that decide on deletion and compaction, with Kafka's defaults.

They come from topic or broker properties; broker properties have other names. Source:
`org.apache.kafka.storage.internals.log.LogConfig`, `ServerTopicConfigSynonyms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from kfmt_cli.broker.defaults import (
    DEFAULT_SEGMENT_BYTES,
    DEFAULT_SEGMENT_INDEX_BYTES,
    DEFAULT_SEGMENT_MS,
)
from kfmt_cli.errors import UsageError

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic, with times in milliseconds. -1: no limit. -2, for local retention:
    the limit of the topic."""

    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    segment_ms: int = DEFAULT_SEGMENT_MS
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    segment_index_bytes: int = DEFAULT_SEGMENT_INDEX_BYTES
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    remote: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    min_cleanable_ratio: float = 0.5
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    max_decompressed_message_bytes: int = (1 << 31) - 9
    """The most bytes of a record in a compressed batch, since Kafka 4.4."""

    @property
    def has_delete_policy(self) -> bool:
        """Whether old segments are deleted."""
        return "delete" in self.cleanup_policy

    @property
    def has_compact_policy(self) -> bool:
        """Whether the log is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def effective_retention_ms(self) -> int:
        """How long a segment is kept on this disk, in milliseconds; negative: no limit."""
        return self.local_retention_ms if self._has_local_retention_ms else self.retention_ms

    @property
    def time_setting_name(self) -> str:
        """The name of the setting used for `effective_retention_ms`."""
        return f"{'local.' if self._has_local_retention_ms else ''}retention.ms"

    @property
    def _has_local_retention_ms(self) -> bool:
        return self.remote and self.local_retention_ms != -2

    @property
    def effective_retention_bytes(self) -> int:
        """How many bytes of a partition are kept on this disk; negative: no limit."""
        return (
            self.local_retention_bytes if self._has_local_retention_bytes else self.retention_bytes
        )

    @property
    def size_setting_name(self) -> str:
        """The name of the setting used for `effective_retention_bytes`."""
        return f"{'local.' if self._has_local_retention_bytes else ''}retention.bytes"

    @property
    def _has_local_retention_bytes(self) -> bool:
        return self.remote and self.local_retention_bytes != -2

    def setting_value(self, setting_name: str) -> object:
        """The value of a setting by its topic name, as in a topic configuration."""
        field_value = getattr(self, FIELD_BY_TOPIC_SETTING[setting_name])
        return ",".join(sorted(field_value)) if setting_name == "cleanup.policy" else field_value


# The topic settings whose field is not spelled alike, by field.
_IRREGULAR_NAMES = {
    "remote": "remote.storage.enable",
    "min_cleanable_ratio": "min.cleanable.dirty.ratio",
}
FIELD_BY_TOPIC_SETTING = {
    _IRREGULAR_NAMES.get(field.name, field.name.replace("_", ".")): field.name
    for field in fields(TopicSettings)
}
# The field and the factor of each broker setting. Later entries win: a broker prefers milliseconds
# to minutes and minutes to hours.
_FIELD_AND_FACTOR_BY_SETTING = {
    "log.retention.hours": ("retention_ms", _HOUR_MS),
    "log.retention.minutes": ("retention_ms", _MINUTE_MS),
    "log.retention.ms": ("retention_ms", 1),
    "log.retention.bytes": ("retention_bytes", 1),
    "log.roll.hours": ("segment_ms", _HOUR_MS),
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


def apply_properties(settings: TopicSettings, properties: Mapping[str, str]) -> TopicSettings:
    """The settings with broker properties applied, then topic properties; raises UsageError."""
    value_by_field: dict[str, object] = {}
    for setting_name, (field_name, unit_factor) in _FIELD_AND_FACTOR_BY_SETTING.items():
        if setting_name in properties:
            value_by_field[field_name] = _parse_setting_value(
                setting_name, field_name, properties[setting_name], unit_factor
            )
    for setting_name, field_name in FIELD_BY_TOPIC_SETTING.items():
        if setting_name in properties:
            value_by_field[field_name] = _parse_setting_value(
                setting_name, field_name, properties[setting_name], 1
            )
    return replace(settings, **value_by_field)  # type: ignore[arg-type]


def overridden_fields(properties: Mapping[str, str]) -> set[str]:
    """The fields that broker or topic properties set."""
    field_by_setting = {
        **FIELD_BY_TOPIC_SETTING,
        **{
            setting_name: field_name
            for setting_name, (field_name, _) in _FIELD_AND_FACTOR_BY_SETTING.items()
        },
    }
    return {
        field_name
        for setting_name, field_name in field_by_setting.items()
        if setting_name in properties
    }


def parse_cleanup_policy(text: str) -> frozenset[str]:
    """The policies in a value of cleanup.policy."""
    return frozenset(policy.strip() for policy in text.split(",") if policy.strip())


def _parse_setting_value(
    setting_name: str, field_name: str, value_text: str, unit_factor: int
) -> object:
    try:
        if field_name == "cleanup_policy":
            return parse_cleanup_policy(value_text)
        if field_name == "remote":
            return value_text.strip().lower() == "true"
        if field_name == "min_cleanable_ratio":
            return float(value_text)
        number = int(value_text)
    except ValueError:
        raise UsageError(f"{setting_name}={value_text}: not a number") from None
    return number * unit_factor if number >= 0 else number
