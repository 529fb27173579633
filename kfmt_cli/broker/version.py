"""The versions of Kafka for which a start or a lookup is predicted, and how they differ.

Source: `org.apache.kafka.common.record.FileRecords` (`searchForOffsetWithSize` until 4.0,
`searchForOffsetFromPosition` since 4.1), `org.apache.kafka.server.common.MetadataVersion`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """A version and its behaviour, which was observed on a release of it."""

    name: str
    observed_on: str
    """The release on which it was observed."""
    first_feature_level: int
    """The first feature level of its metadata.version."""
    last_feature_level: int
    """The highest level that production clusters of this version can have."""
    known_feature_levels: tuple[int, int]
    """The levels that it can read, with those of releases in preparation."""
    last_level_by_feature: Mapping[str, int]
    """The last level of each other feature; 0 of those that it does not have."""
    reads_base_offset: bool = True
    """A lookup reads the base offset of the batch that it finds, so a broker decompresses a wrapper
    of magic 0 or 1."""
    searches_by_base_offset: bool = True
    """A lookup compares base offsets: it returns the batch before the first one that begins after
    the target. If False, it returns the first batch that ends at or after the target."""
    checks_all_of_aborted_version: bool = False
    """A start checks both bytes of the version of an entry in a transaction index. If False, only
    the first."""
    truncates_at_access_errors: bool = True
    """Log recovery truncates a segment to nothing if a file that it writes then, such as the next
    snapshot, cannot be opened. If False, the log directory goes offline."""

    @property
    def release(self) -> tuple[int, int]:
        """Its name as numbers."""
        major, _, minor = self.name.partition(".")
        return int(major), int(minor)

    def iter_level_problems(
        self, level_by_feature: Mapping[str, int], is_controller: bool
    ) -> Iterator[str]:
        """The reasons why a node of this version does not start with some feature levels. Only
        metadata.version stops a node that is not a controller."""
        names = sorted(level_by_feature, key=lambda name: (name != METADATA_VERSION_FEATURE, name))
        for name in names:
            level = level_by_feature[name]
            problem = self._find_level_problem(name, level)
            if problem is not None and (is_controller or name == METADATA_VERSION_FEATURE):
                yield (
                    f"{name} has level {level}, which Kafka {self.name} does not support: {problem}"
                )

    def _find_level_problem(self, feature: str, level: int) -> str | None:
        """Kafka's message about the level of a feature; None if it supports it.

        Source: `org.apache.kafka.server.common.MetadataVersion.fromFeatureLevel`,
        `org.apache.kafka.controller.FeatureControlManager.replay`.
        """
        if feature != METADATA_VERSION_FEATURE:
            last_level = self.last_level_by_feature.get(feature, 0)
            if level <= last_level:
                return None
            return (
                f"Tried to apply FeatureLevelRecord FeatureLevelRecord(name='{feature}', "
                f"featureLevel={level}), but this controller only supports versions "
                f"{f'0-{last_level}' if last_level else '0'}"
            )
        first_level, last_level = self.known_feature_levels
        if not first_level <= level <= last_level:
            return (
                f"No MetadataVersion with feature level {level}. Valid feature levels are "
                f"from {first_level} to {last_level}."
            )
        if level > self.last_feature_level:
            return f"its last level is {self.last_feature_level}"
        return None


METADATA_VERSION_FEATURE = "metadata.version"
_FEATURES_OF_3_9 = {"kraft.version": 1}
_FEATURES_OF_4_0 = {
    **_FEATURES_OF_3_9,
    "transaction.version": 2,
    "group.version": 1,
    "eligible.leader.replicas.version": 1,
}
_FEATURES_OF_4_1 = {**_FEATURES_OF_4_0, "share.version": 1}
_FEATURES_OF_4_2 = {**_FEATURES_OF_4_1, "streams.version": 1}
_FEATURES_OF_4_4 = {**_FEATURES_OF_4_2, "share.version": 2}
KAFKA_VERSIONS = (
    KafkaVersion(
        *("3.9", "3.9.1", 21, 21, (-1, 23), _FEATURES_OF_3_9),
        reads_base_offset=False,
        searches_by_base_offset=False,
        truncates_at_access_errors=False,
    ),
    KafkaVersion(
        *("4.0", "4.0.0", 22, 25, (7, 26), _FEATURES_OF_4_0), searches_by_base_offset=False
    ),
    KafkaVersion("4.1", "4.1.0", 26, 27, (7, 29), _FEATURES_OF_4_1),
    KafkaVersion("4.2", "4.2.0", 28, 29, (7, 30), _FEATURES_OF_4_2),
    KafkaVersion("4.3", "4.3.1", 30, 30, (7, 31), _FEATURES_OF_4_2),
    KafkaVersion(
        *("4.4", "4.4.0", 31, 33, (7, 34), _FEATURES_OF_4_4), checks_all_of_aborted_version=True
    ),
)
OLDEST_VERSION, NEWEST_VERSION = KAFKA_VERSIONS[0], KAFKA_VERSIONS[-1]
_VERSION_NAME = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PredictedVersion:
    """The version that a prediction is made for, and why this one."""

    kafka_version: KafkaVersion
    reason: str
    is_nearest: bool = False
    """Whether it stands for another version, which kfmt does not know."""

    @property
    def json_members(self) -> dict[str, object]:
        """The version in the JSON contract."""
        return {
            "kafka_version": self.kafka_version.name,
            "observed_on": [self.kafka_version.observed_on],
        }


def format_predicted_versions(predicted_versions: Iterable[PredictedVersion]) -> str:
    """The versions and the reasons, for the end of a prediction."""
    reasons_by_version: dict[str, set[str]] = {}
    for predicted_version in predicted_versions:
        reasons_by_version.setdefault(predicted_version.kafka_version.name, set()).add(
            predicted_version.reason
        )
    descriptions = (
        f"for Kafka {version_name}, {' or '.join(sorted(version_reasons))}"
        for version_name, version_reasons in reasons_by_version.items()
    )
    return "; ".join(sorted(descriptions))


DEFAULT_PREDICTED_VERSION = PredictedVersion(OLDEST_VERSION, "the default")
LAST_ZOOKEEPER_VERSION = PredictedVersion(
    OLDEST_VERSION, "the last with ZooKeeper, from meta.properties", is_nearest=True
)
"""For a broker with ZooKeeper, of 3.9 or earlier: its directory does not tell which version."""


def version_from_option(version_name: str) -> PredictedVersion | None:
    """The version that the user named, such as 4.2 or 4.2.1, or the nearest one; None for a name
    that is not a version."""
    match = _VERSION_NAME.fullmatch(version_name)
    if match is None:
        return None
    requested_release = int(match[1]), int(match[2])
    versions_by_release = {version.release: version for version in KAFKA_VERSIONS}
    if requested_release in versions_by_release:
        return PredictedVersion(versions_by_release[requested_release], "from --kafka-version")
    earlier_releases = [release for release in versions_by_release if release < requested_release]
    nearest_version = versions_by_release[max(earlier_releases, default=OLDEST_VERSION.release)]
    reason = f"the nearest to {version_name} that kfmt knows"
    return PredictedVersion(nearest_version, reason, is_nearest=True)


def version_from_feature_level(feature_level: int) -> PredictedVersion:
    """The version with a feature level of metadata.version; the nearest version for an unknown
    level."""
    found = f"; the metadata log has {METADATA_VERSION_FEATURE} level {feature_level}"
    if feature_level > NEWEST_VERSION.last_feature_level:
        return PredictedVersion(NEWEST_VERSION, f"the newest that kfmt knows{found}")
    if feature_level < OLDEST_VERSION.first_feature_level:
        return PredictedVersion(OLDEST_VERSION, f"the oldest that kfmt knows{found}")
    reached_versions = (
        version for version in KAFKA_VERSIONS if version.first_feature_level <= feature_level
    )
    return PredictedVersion(list(reached_versions)[-1], "from the metadata log")
