"""Partitions of the coordinators' topics that a coordinator cannot load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kfmt_cli.broker.state.coordinator_loading import (
    NEW_COORDINATOR_OF_39,
    CoordinatorFailure,
    CoordinatorLoading,
)
from kfmt_cli.broker.state.unfinished_transactions import UnfinishedTransaction
from kfmt_cli.broker.version import (
    DEFAULT_PREDICTED_VERSION,
    LAST_ZOOKEEPER_VERSION,
    NEWEST_VERSION,
    OLDEST_VERSION,
    PredictedVersion,
)
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.findings.codes import COORDINATOR_LOAD_FAILS, TRANSACTION_UNFINISHED
from kfmt_cli.findings.finding import Finding, Severity, is_error
from kfmt_cli.log.block import Block
from kfmt_cli.log.record_stream import iter_block_records


class CoordinatorLoadingCheck:
    """Loads a partition of a coordinator's topic, as its logs are read.

    topic: the topic; None for one without coordinator, which is not loaded. After damage, nothing
    more is loaded: a record may only seem to fail.
    """

    def __init__(self, topic: str | None) -> None:
        self.failures: list[CoordinatorFailure] = []
        """The records that cannot be loaded, once `finish` was called."""
        self.unfinished_by_offset: Mapping[int, UnfinishedTransaction] = {}
        """The transactions that the coordinator ends, once `finish` was called; none if damage
        ended the loading."""
        self._loading = None if topic is None else CoordinatorLoading(topic)
        self._limit = DecompressionLimit()

    def add_block(self, block: Block) -> None:
        """Load the next block."""
        if self._loading is not None:
            for record in iter_block_records(block, self._limit):
                if not isinstance(record, Finding):
                    self._loading.apply_record(record)
                elif is_error(record):
                    self.finish()
                    self.unfinished_by_offset = {}
                    return

    def finish(self) -> None:
        """End the loading, and release what it holds."""
        if self._loading is not None:
            self.failures = self._loading.failures
            self.unfinished_by_offset = self._loading.unfinished_by_offset
            self._loading = None

    def iter_findings(self, file: str, predicted_version: PredictedVersion) -> Iterator[Finding]:
        """A finding for each record that some version cannot load; if there is none, for each
        transaction that the coordinator ends."""
        yield from create_loading_findings(self.failures, file, predicted_version)
        if not self.failures:
            for offset, transaction in self.unfinished_by_offset.items():
                message = transaction.describe_end()
                yield Finding(file, TRANSACTION_UNFINISHED, None, message, offset=offset)


def create_loading_findings(
    failures: Iterable[CoordinatorFailure],
    file: str,
    predicted_version: PredictedVersion = DEFAULT_PREDICTED_VERSION,
) -> Iterator[Finding]:
    """A finding for each record that some version cannot load."""
    for failure in failures:
        severity = _find_severity(failure, predicted_version)
        if severity is not None:
            code = replace(COORDINATOR_LOAD_FAILS, severity=severity)
            yield Finding(file, code, None, failure.message, offset=failure.offset)


def _find_severity(
    failure: CoordinatorFailure, predicted_version: PredictedVersion
) -> Severity | None:
    """An error if the broker's version fails, or if that is unknown the newest; a note if another
    version fails than the broker's. None if only 3.9 could, with a coordinator that it does not
    have by default: later ones leave such partitions."""
    is_unknown = predicted_version in (DEFAULT_PREDICTED_VERSION, LAST_ZOOKEEPER_VERSION)
    version_name = NEWEST_VERSION.name if is_unknown else predicted_version.kafka_version.name
    if failure.versions == (NEW_COORDINATOR_OF_39,):
        return Severity.NOTE if version_name == OLDEST_VERSION.name else None
    if version_name in failure.versions:
        return Severity.ERROR
    return Severity.WARNING if is_unknown else Severity.NOTE
