"""Topic settings from options, a file or the metadata log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.broker.metadata.meta_properties import read_meta_properties
from kfmt_cli.broker.metadata.metadata_replay import replay_undamaged_metadata
from kfmt_cli.broker.start.directory import LogDirectory, load_log_directory
from kfmt_cli.broker.topic_settings import (
    FIELD_BY_TOPIC_SETTING,
    TopicSettings,
    apply_properties,
    overridden_fields,
    parse_cleanup_policy,
)
from kfmt_cli.commands.command_run import cached_for_run
from kfmt_cli.core.integers import parse_java_int
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import classify_file, list_directory
from kfmt_cli.disk.file_access import is_directory, read_whole_file
from kfmt_cli.disk.file_names import parse_topic_partition, partition_directory
from kfmt_cli.disk.kinds.properties import (
    MAX_PROPERTIES_BYTES,
    decode_java_properties,
    parse_java_properties,
)
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.errors import InputError, InputErrorHandler, UsageError, unknown_name_error
from kfmt_cli.rows.types.state_rows import CONFIG_ROW
from kfmt_cli.topics import CLUSTER_METADATA

# Sources of a setting.
OPTION_SOURCE = "option"
FILE_SOURCE = "file"
METADATA_LOG_SOURCE = "metadata log"
DEFAULT_SOURCE = "Kafka's default"


def settings_with_sources(
    settings: TopicSettings, source_by_field: Mapping[str, str], setting_names: Iterable[str]
) -> dict[str, dict[str, object]]:
    """Some settings by topic setting name, each with its value and source."""
    return {
        setting_name: {
            "value": settings.setting_value(setting_name),
            "source": source_by_field.get(FIELD_BY_TOPIC_SETTING[setting_name], DEFAULT_SOURCE),
        }
        for setting_name in setting_names
    }


@dataclass(slots=True)
class TopicSettingsResolver:
    """Looks up the settings of topics."""

    config_path: Path | None = None
    """A properties file."""
    overrides: Mapping[str, object] = field(default_factory=dict)
    """Settings from options, by field name."""
    _config_settings: TopicSettings | None = None
    _config_properties: Mapping[str, str] = field(default_factory=dict)
    _directory_by_path: dict[Path, LogDirectory] = field(default_factory=dict)

    @classmethod
    def from_options(
        cls, config_path: Path | None, options: Mapping[str, object]
    ) -> TopicSettingsResolver:
        """A resolver with settings from options, by field name; None for options not used. The
        cleanup policy is a comma-separated list of names. Raises UsageError."""
        overrides = {name: value for name, value in options.items() if value is not None}
        if "cleanup_policy" in overrides:
            overrides["cleanup_policy"] = policies = parse_cleanup_policy(
                str(overrides["cleanup_policy"])
            )
            for name in sorted(policies - {"compact", "delete"}):
                raise unknown_name_error("cleanup policy", name, ("compact", "delete"))
        return cls(config_path, overrides)

    def read_partition_settings(
        self, partition: Partition, on_error: Callable[[str], None]
    ) -> tuple[LogDirectory, tuple[str, int], TopicSettings]:
        """A partition's log directory, its topic and number, and its settings; raises UsageError.

        on_error: receives errors about unreadable files of the log directory.
        """
        log_directory = partition.log_directory
        if log_directory not in self._directory_by_path:
            self._directory_by_path[log_directory] = load_log_directory(log_directory)
        topic, partition_index = partition.topic_partition
        opened_directory = self._directory_by_path[log_directory]
        settings = self.topic_settings(topic, log_directory)
        metadata_configs = _load_metadata_configs(log_directory)
        for error in (
            *opened_directory.read_errors,
            *metadata_configs.read_errors,
            *metadata_configs.damage_errors,
        ):
            on_error(str(error))
        return opened_directory, (topic or "", partition_index or 0), settings

    def setting_sources(self, partition: Partition) -> dict[str, str]:
        """The source of each non-default setting of a partition."""
        properties_by_topic = _load_metadata_configs(partition.log_directory).properties_by_topic
        source_by_field = dict.fromkeys(overridden_fields(self._config_properties), FILE_SOURCE)
        for properties in (
            properties_by_topic.get("", {}),
            properties_by_topic.get(partition.topic_partition[0] or "", {}),
        ):
            source_by_field |= dict.fromkeys(overridden_fields(properties), METADATA_LOG_SOURCE)
        return source_by_field | dict.fromkeys(self.overrides, OPTION_SOURCE)

    def has_metadata_log(self, log_directory: Path) -> bool:
        """Whether a log directory has a metadata log, which contains all changed settings."""
        return is_directory(f"{log_directory}/{CLUSTER_METADATA}-0")

    def topic_settings(self, topic: str | None, log_directory: Path) -> TopicSettings:
        """The settings of a topic with a partition in a log directory; raises UsageError."""
        if self._config_settings is None:
            self._config_settings = TopicSettings()
            if self.config_path is not None:
                self._config_properties = read_properties(self.config_path)
                self._config_settings = apply_properties(
                    self._config_settings, self._config_properties
                )
        properties_by_topic = _load_metadata_configs(log_directory).properties_by_topic
        settings = apply_properties(self._config_settings, properties_by_topic.get("", {}))
        settings = apply_properties(
            settings, properties_by_topic.get(topic or "", {}) if topic else {}
        )
        return replace(settings, **self.overrides)  # type: ignore[arg-type]


def read_properties(path: Path, *, has_secrets: bool = False) -> dict[str, str]:
    """The names and values in a properties file, as Java reads it; raises UsageError, which quotes
    no value of a file with secrets."""

    def raise_malformed(position: int, problem: str) -> None:
        raise UsageError(f"{path} byte {position}: {'malformed' if has_secrets else problem}")

    try:
        properties_text = decode_java_properties(read_whole_file(str(path), MAX_PROPERTIES_BYTES))
    except InputError as error:
        raise UsageError(str(error)) from error
    return {
        name: str(value)
        for _, name, value in parse_java_properties(properties_text, raise_malformed)
    }


def is_topic_compacted(topic: str | None, log_directory: Path) -> bool | None:
    """Whether a topic is compacted, from the metadata log of a log directory; None if unknown.
    Raises InputError."""
    if topic is None or not is_directory(f"{log_directory}/{CLUSTER_METADATA}-0"):
        return None
    properties_by_topic = _read_topic_properties(log_directory)
    if (
        topic not in properties_by_topic
        and not properties_by_topic.get("", {})
        and topic.startswith("__")
    ):
        return None
    return TopicSettingsResolver().topic_settings(topic, log_directory).has_compact_policy


def is_topic_remote(topic: str, log_directories: Iterable[Path]) -> bool:
    """Whether a topic has remote storage, from the metadata log in one of some log directories;
    False without one. Raises InputError."""
    return any(
        _read_topic_properties(log_directory).get(topic, {}).get("remote.storage.enable") == "true"
        for log_directory in log_directories
    )


def read_index_interval_bytes(partition_path: Path) -> int:
    """The index.interval.bytes of a partition's topic, from the metadata log next to it, or
    Kafka's default; raises InputError."""
    directory = partition_directory(str(partition_path))
    properties_by_topic = _read_topic_properties(directory.parent)
    topic, _ = parse_topic_partition(directory.name)
    for properties in (properties_by_topic.get(topic or "", {}), properties_by_topic.get("", {})):
        for setting_name in ("index.interval.bytes", "log.index.interval.bytes"):
            interval_bytes = parse_java_int(properties.get(setting_name, "").strip())
            if interval_bytes is not None and interval_bytes >= 0:
                return interval_bytes
    return DEFAULT_INDEX_INTERVAL_BYTES


def _read_topic_properties(log_directory: Path) -> dict[str, dict[str, str]]:
    """The settings of topics in the metadata log of a log directory; raises InputError."""
    configs = _load_metadata_configs(log_directory)
    for error in configs.read_errors:
        raise error
    return configs.properties_by_topic


@dataclass(slots=True)
class _MetadataConfigs:
    """The settings in a metadata log."""

    properties_by_topic: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings by topic; those of the broker under an empty name, its own before the cluster-wide.

    Source: `org.apache.kafka.server.config.DynamicBrokerConfig`.
    """
    read_errors: list[InputError] = field(default_factory=list)
    """Errors about files of the log that could not be read."""
    damage_errors: list[InputError] = field(default_factory=list)
    """Errors about damage in the log: settings may be missing or outdated."""


@cached_for_run
def _load_metadata_configs(log_directory: Path) -> _MetadataConfigs:
    """The settings in the metadata log of a log directory."""
    configs = _MetadataConfigs()
    metadata_log_path = f"{log_directory}/{CLUSTER_METADATA}-0"
    if not is_directory(metadata_log_path):
        return configs
    try:
        directory_listing = list_directory(metadata_log_path)
    except InputError as error:
        configs.read_errors.append(error)
        return configs
    replay = replay_undamaged_metadata(
        directory_listing, configs.read_errors, configs.damage_errors
    )
    broker_properties: dict[str, dict[str, str]] = {}
    for row in replay.sorted_rows()[CONFIG_ROW].values():
        config = FieldDict(zip(CONFIG_ROW.member_names, row, strict=True))
        properties_by_resource = {
            "TOPIC": configs.properties_by_topic,
            "BROKER": broker_properties,
        }.get(str(config.resource_type))
        if properties_by_resource is not None and config.value is not None:
            properties_by_resource.setdefault(str(config.resource), {})[str(config.name)] = str(
                config.value
            )
    configs.properties_by_topic[""] = broker_properties.pop("", {})
    if broker_properties:
        with InputErrorHandler(configs.read_errors.append):
            path = f"{log_directory}/meta.properties"
            identity = read_meta_properties(classify_file(path, format_display_name(path)))
            configs.properties_by_topic[""] |= broker_properties.get(str(identity.node_id), {})
    return configs
