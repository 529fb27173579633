"""Topic settings from options, a file or the metadata log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.broker.start.directory import LogDirectory, directory_at
from kfmt_cli.broker.start.image import replayed_undamaged
from kfmt_cli.broker.topic_settings import (
    TOPIC_FIELDS,
    TopicSettings,
    fields_in,
    policies_in,
    with_properties,
)
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.kinds.properties import java_properties, java_text
from kfmt_cli.disk.names import partition_folder, place_of
from kfmt_cli.disk.opening import is_folder
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.disk.tree import listing
from kfmt_cli.errors import InputError, UsageError, unknown_name
from kfmt_cli.rows.types.state_types import CONFIG
from kfmt_cli.topics import CLUSTER_METADATA

# Sources of a setting.
OPTION, FILE, METADATA_LOG, DEFAULT = "option", "file", "metadata log", "Kafka's default"


def with_sources(
    settings: TopicSettings, sources: Mapping[str, str], names: Iterable[str]
) -> dict[str, dict[str, object]]:
    """Some settings by topic setting name, each with its value and source."""
    return {
        name: {"value": settings.named(name), "source": sources.get(TOPIC_FIELDS[name], DEFAULT)}
        for name in names
    }


@dataclass(slots=True)
class SettingsOf:
    """Looks up the settings of topics."""

    config: Path | None = None
    """A properties file."""
    changes: Mapping[str, object] = field(default_factory=dict)
    """Settings from options, by field name."""
    _base: TopicSettings | None = None
    _given: Mapping[str, str] = field(default_factory=dict)
    _directories: dict[Path, LogDirectory] = field(default_factory=dict)

    @classmethod
    def given(cls, config: Path | None, options: Mapping[str, object]) -> SettingsOf:
        """With settings from options, named as the fields are; None for those that were not given.
        The policy is a list of names with commas. Raises UsageError."""
        changes = {name: value for name, value in options.items() if value is not None}
        if "cleanup_policy" in changes:
            changes["cleanup_policy"] = policies = policies_in(str(changes["cleanup_policy"]))
            for name in sorted(policies - {"compact", "delete"}):
                raise unknown_name("cleanup policy", name, ("compact", "delete"))
        return cls(config, changes)

    def around(
        self, partition: Partition, complain: Callable[[str], None]
    ) -> tuple[LogDirectory, tuple[str, int], TopicSettings]:
        """A partition's log directory, topic with number, and settings; raises UsageError.

        complain: receives errors about unreadable files of the log directory.
        """
        log_directory = partition.log_directory
        if log_directory not in self._directories:
            self._directories[log_directory] = directory_at(log_directory)
        topic, number = partition.place
        directory, settings = self._directories[log_directory], self.of(topic, log_directory)
        configs = _configs(log_directory)
        for error in (*directory.unread, *configs.unread, *configs.damage):
            complain(str(error))
        return directory, (topic or "", number or 0), settings

    def sources(self, partition: Partition) -> dict[str, str]:
        """Source of each setting of a partition's topic that is not a default; call `of` first."""
        known = _configs(partition.log_directory).of_topics
        found = dict.fromkeys(fields_in(self._given), FILE)
        for given in (known.get("", {}), known.get(partition.place[0] or "", {})):
            found |= dict.fromkeys(fields_in(given), METADATA_LOG)
        return found | dict.fromkeys(self.changes, OPTION)

    def knows(self, log_directory: Path) -> bool:
        """Whether a log directory has a metadata log, which contains all changed settings."""
        return is_folder(f"{log_directory}/{CLUSTER_METADATA}-0")

    def of(self, topic: str | None, log_directory: Path) -> TopicSettings:
        """The settings of a topic with a partition in a log directory; raises UsageError."""
        if self._base is None:
            self._base = TopicSettings()
            if self.config is not None:
                self._given = properties_in(self.config)
                self._base = with_properties(self._base, self._given)
        known = _configs(log_directory).of_topics
        found = with_properties(self._base, known.get("", {}))
        found = with_properties(found, known.get(topic or "", {}) if topic else {})
        return replace(found, **self.changes)  # type: ignore[arg-type]


def properties_in(path: Path, *, has_secrets: bool = False) -> dict[str, str]:
    """The names and values in a properties file, as Java reads it; raises UsageError, which quotes
    no value of a file with secrets."""

    def malformed(position: int, words: str) -> None:
        raise UsageError(f"{path} byte {position}: {'malformed' if has_secrets else words}")

    try:
        text = java_text(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return {name: str(value) for _, name, value in java_properties(text, malformed)}


def compacts(topic: str | None, log_directory: Path) -> bool | None:
    """Whether a topic is compacted, from the metadata log of a log directory; None if unknown.
    Raises InputError."""
    if topic is None or not is_folder(f"{log_directory}/{CLUSTER_METADATA}-0"):
        return None
    known = _read_configs(log_directory)
    if topic not in known and not known.get("", {}) and topic.startswith("__"):
        return None
    return SettingsOf().of(topic, log_directory).compacts


def interval_of(partition: Path) -> int:
    """The index.interval.bytes of a partition's topic, from the metadata log next to it, or
    Kafka's default; raises InputError."""
    folder = partition_folder(str(partition))
    known = _read_configs(folder.parent)
    topic, _ = place_of(folder.name)
    for settings in (known.get(topic or "", {}), known.get("", {})):
        for name in ("index.interval.bytes", "log.index.interval.bytes"):
            if settings.get(name, "").isdigit():
                return int(settings[name])
    return INDEX_INTERVAL_BYTES


def _read_configs(log_directory: Path) -> dict[str, dict[str, str]]:
    """The settings of topics in the metadata log of a log directory; raises InputError."""
    configs = _configs(log_directory)
    for error in configs.unread:
        raise error
    return configs.of_topics


@dataclass(slots=True)
class _Configs:
    """The settings in a metadata log."""

    of_topics: dict[str, dict[str, str]] = field(default_factory=dict)
    """Those of each topic; cluster-wide broker defaults under an empty name."""
    unread: list[InputError] = field(default_factory=list)
    """The errors of its files that could not be read."""
    damage: list[InputError] = field(default_factory=list)
    """Errors about damage in them: settings may be missing or old."""


@lru_cache(maxsize=8)
def _configs(log_directory: Path) -> _Configs:
    """The settings in the metadata log of a log directory."""
    found = _Configs()
    path = f"{log_directory}/{CLUSTER_METADATA}-0"
    if not is_folder(path):
        return found
    try:
        folder = listing(path)
    except InputError as error:
        found.unread.append(error)
        return found
    replay = replayed_undamaged(folder, found.unread, found.damage)
    for row in replay.state()[CONFIG].values():
        values = Fields(zip(CONFIG.names, row, strict=True))
        named = "" if values.resource_type == "BROKER" and not values.resource else None
        topic = values.resource if values.resource_type == "TOPIC" else named
        if topic is not None and values.value is not None:
            found.of_topics.setdefault(str(topic), {})[str(values.name)] = str(values.value)
    return found
