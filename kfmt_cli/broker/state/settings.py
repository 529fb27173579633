"""Settings, features and quotas, as changed by the records of the cluster metadata.

Source: `org.apache.kafka.image.ConfigurationsDelta`, `FeaturesDelta`, `ClientQuotasDelta`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfmt_cli.broker.state.secrets import is_secret
from kfmt_cli.core.layout.fields import Fields as Data
from kfmt_cli.formats.kafka_messages import message
from kfmt_cli.rows.types.state_types import CONFIG, FEATURE, QUOTA, StateType

_TYPE = message("ConfigRecord").field("resource_type")
TOPIC = 2


class Settings:
    """The settings in the cluster metadata."""

    def __init__(self) -> None:
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}

    def config(self, data: Data) -> None:
        """Set a setting, or remove it if the value is null."""
        of = self._configs.setdefault((data.resource_type, data.resource_name), {})
        of.pop(data.name, None)
        if data.value is not None:
            of[data.name] = data.value

    def forget_topic(self, name: str) -> None:
        """Remove the settings of a deleted topic."""
        self._configs.pop((TOPIC, name), None)

    def feature(self, data: Data) -> None:
        """Enable a feature, or disable it at level 0."""
        self._features.pop(data.name, None)
        if data.feature_level or data.name == "kraft.version":
            self._features[data.name] = data.feature_level

    def quota(self, data: Data) -> None:
        """Set or remove a quota."""
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in data.entity))
        of = self._quotas.setdefault(entity, {})
        of.pop(data.key, None)
        if not data.remove:
            of[data.key] = data.value

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        """Features, settings, quotas."""
        for name, level in self._features.items():
            yield FEATURE, {"feature": name, "level": level}
        for (type_, resource), settings in self._configs.items():
            for name, value in settings.items():
                hidden = is_secret(name)
                setting = {
                    "resource_type": _TYPE.symbol(type_) or f"unknown-{type_}",
                    "resource": resource,
                    "name": name,
                    "value": None if hidden else value,
                    "hidden": True if hidden else None,
                }
                yield CONFIG, setting
        for entity, quotas in self._quotas.items():
            for name, number in quotas.items():
                yield QUOTA, {"entity": dict(entity), "name": name, "value": number}
