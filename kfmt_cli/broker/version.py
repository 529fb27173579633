"""The versions of Kafka for which a start or a lookup is predicted, and how they differ.

Source: `org.apache.kafka.common.record.FileRecords` (`searchForOffsetWithSize` until 4.0,
`searchForOffsetFromPosition` from 4.1 on), `org.apache.kafka.server.common.MetadataVersion`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """A version and its behaviour, which was observed on a release of it."""

    name: str
    observed_on: str
    """The release."""
    first_level: int
    """The first feature level of its metadata.version."""
    asks_base_offset: bool = True
    """A lookup asks the batch that it finds for its base offset. A wrapper of magic 0 or 1 has it
    inside, so a broker decompresses it."""
    searches_by_base_offset: bool = True
    """A lookup compares base offsets: it takes the batch before the first one that begins after the
    target. If False, it takes the first batch that ends at or after the target."""


VERSIONS = (
    KafkaVersion("3.9", "3.9.1", 21, asks_base_offset=False, searches_by_base_offset=False),
    KafkaVersion("4.0", "4.0.0", 22, searches_by_base_offset=False),
    KafkaVersion("4.1", "4.1.0", 26),
    KafkaVersion("4.2", "4.2.0", 28),
)
OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]
MOST_LEVEL = 29  # 4.2-IV1, the last feature level of the newest version
FEATURE = "metadata.version"


@dataclass(frozen=True, slots=True)
class PredictedFor:
    """The version that a prediction is made for, and why this one."""

    version: KafkaVersion
    why: str

    @property
    def row(self) -> dict[str, object]:
        """The version in the JSON contract."""
        return {"kafka_version": self.version.name, "observed_on": [self.version.observed_on]}


def version_words(found: Iterable[PredictedFor]) -> str:
    """The versions and the reasons, for the end of a prediction."""
    reasons: dict[str, set[str]] = {}
    for its in found:
        reasons.setdefault(its.version.name, set()).add(its.why)
    words = (f"for Kafka {name}, {' or '.join(sorted(why))}" for name, why in reasons.items())
    return "; ".join(sorted(words))


BY_DEFAULT = PredictedFor(OLDEST, "the default")


def by_option(name: str) -> PredictedFor:
    """The version that the user named."""
    return PredictedFor(next(its for its in VERSIONS if its.name == name), "by --kafka-version")


def by_level(level: int) -> PredictedFor:
    """The version of a feature level of metadata.version; the newest one for a later level."""
    if level > MOST_LEVEL:
        words = f"the newest that kfmt knows; the metadata log has {FEATURE} level {level}"
        return PredictedFor(NEWEST, words)
    fitting = [version for version in VERSIONS if version.first_level <= level]
    return PredictedFor(fitting[-1] if fitting else OLDEST, "by the metadata log")
