"""The first record of a partition that a coordinator cannot load, for each version of Kafka.

A coordinator loads a partition of its topic record by record; an exception ends it. Source:
`org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl`, `CoordinatorRecordSerde`,
`kafka.coordinator.group.GroupMetadataManager` (the group coordinator that 3.9 has by default),
`org.apache.kafka.coordinator.share.ShareCoordinatorShard`,
`kafka.coordinator.transaction.TransactionStateManager`, `TransactionLog`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kfmt_cli.broker.state.group_loading import LoadedGroups, find_group_rules
from kfmt_cli.broker.state.unfinished_transactions import TRANSACTION_STATES, UnfinishedTransaction
from kfmt_cli.broker.version import KAFKA_VERSIONS, KafkaVersion
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.log.record_stream import StreamedRecord
from kfmt_cli.topics import find_decoder

GROUPS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
SHARE_TOPIC = "__share_group_state"
COORDINATOR_TOPICS = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC})
NEW_COORDINATOR_OF_39 = "3.9 with the new group coordinator"
_LAST_OLD_VERSION = "3.9"  # the last with the old group coordinator
_FIRST_RELEASE_IGNORING_VALUES = (4, 3)
"""The first release whose transaction coordinator ignores values of unknown versions."""
_LAST_GROUP_VALUE_VERSION, _LAST_TRANSACTION_VALUE_VERSION = 4, 1
_SHARE_UPDATE_TYPE, _COMMIT_TYPES = 1, (0, 1)
_CONSEQUENCE_BY_TOPIC = {
    GROUPS_TOPIC: "no group of this partition is served",
    TRANSACTIONS_TOPIC: "the coordinator loads neither this record nor any after it",
    SHARE_TOPIC: "no share partition of this partition is served",
}
_OLD_CONSEQUENCE = "the groups of this partition start over without committed offsets"


@dataclass(frozen=True, slots=True)
class CoordinatorFailure:
    """A record that coordinators cannot load."""

    topic: str
    offset: int
    record: str
    """Its type, and the group or transactional id it is of."""
    reason: str
    """Kafka's exception."""
    versions: tuple[str, ...]

    @property
    def message(self) -> str:
        """What happens, where, and what follows from it."""
        releases = ", ".join(self.versions)
        consequence = _CONSEQUENCE_BY_TOPIC[self.topic]
        if self.topic == GROUPS_TOPIC and self.versions == ("3.9",):
            consequence = _OLD_CONSEQUENCE
        return (
            f"the coordinator fails to load offset {self.offset}, {self.record}: {self.reason}; "
            f"{consequence} (Kafka {releases})"
        )


class CoordinatorLoading:
    """Loads a partition of a coordinator's topic as each version does."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.failures: list[CoordinatorFailure] = []
        """The first failures, each with the versions that have it."""
        self.unfinished_by_offset: dict[int, UnfinishedTransaction] = {}
        self._unfinished_offset_by_id: dict[str, int] = {}
        decoder = find_decoder(topic)
        assert decoder is not None
        self._decoder = decoder
        self._loading_versions = {
            version.name: version
            for version in KAFKA_VERSIONS
            if topic != SHARE_TOPIC or version.release >= (4, 0)
        }
        self._groups_by_version = {
            version.name: LoadedGroups(find_group_rules(version.release))
            for version in KAFKA_VERSIONS
        }
        if topic == GROUPS_TOPIC:
            self._loading_versions[NEW_COORDINATOR_OF_39] = KAFKA_VERSIONS[0]
            self._groups_by_version[NEW_COORDINATOR_OF_39] = self._groups_by_version["3.9"]
        self._group_by_key: dict[bytes, str] = {}

    def apply_record(self, record: StreamedRecord) -> None:
        """Load the next record."""
        if not self._loading_versions or record.control_type is not None:
            return
        if record.key is None:
            self._refuse(record, "a record", "its key is null", self._loading_versions)
        elif len(record.key) < 2:
            reason = "Could not read version from key's buffer."
            self._refuse(record, "a record", reason, self._loading_versions)
        elif self.topic == GROUPS_TOPIC:
            self._load_group_record(record, record.key)
        elif self.topic == TRANSACTIONS_TOPIC:
            self._load_transaction(record, record.key)
        else:
            self._load_share_record(record, record.key)

    def _refuse(
        self, record: StreamedRecord, name: str, reason: str, versions: Iterable[str]
    ) -> None:
        """Note that versions cannot load a record: they do not go on."""
        failing_versions = [version for version in versions if version in self._loading_versions]
        for version in failing_versions:
            del self._loading_versions[version]
        failure = CoordinatorFailure(self.topic, record.offset, name, reason, ())
        for i, known in enumerate(self.failures):
            if (known.offset, known.record, known.reason) == (record.offset, name, reason):
                self.failures[i] = replace(known, versions=(*known.versions, *failing_versions))
                return
        if failing_versions:
            self.failures.append(replace(failure, versions=tuple(failing_versions)))

    # Groups.

    def _load_group_record(self, record: StreamedRecord, key: bytes) -> None:
        record_type = int.from_bytes(key[:2], "big", signed=True)
        if record_type in _COMMIT_TYPES and key in self._group_by_key:
            name, key_fields = "OffsetCommit", FieldDict(group=self._group_by_key[key])
        else:
            if (decoded_key := self._decode_key(key)) is None:
                return
            message_name, key_fields = decoded_key
            name = message_name.removesuffix("Key")
        group_id = key_fields.get("group", key_fields.get("group_id")) or ""
        description = f"{name} of group {group_id}"
        value_version = self._read_value_version(record)
        for version_name, version in list(self._loading_versions.items()):
            reason = self._find_version_fault(version_name, version, record_type, value_version)
            if reason is not None:
                self._refuse(record, description, reason, [version_name])
        if record_type not in _COMMIT_TYPES:
            self._load_group(record, key, name, key_fields, description)
            return
        self._group_by_key[key] = group_id
        if record.value is not None:
            for version_name in self._loading_versions:
                self._groups_by_version[version_name].load_commit(group_id)

    def _load_group(
        self,
        record: StreamedRecord,
        key: bytes,
        name: str,
        key_fields: FieldDict,
        description: str,
    ) -> None:
        """Load a record of a group or a member, in each version that knows its type."""
        value_fields = self._decode_value(record, key)
        if value_fields is None and record.value is not None:
            return  # a version or bytes that kfmt does not know
        record_type = int.from_bytes(key[:2], "big", signed=True)
        for version_name, version in list(self._loading_versions.items()):
            rules = find_group_rules(version.release)
            if version_name == _LAST_OLD_VERSION or record_type not in rules.known_types:
                continue
            groups = self._groups_by_version[version_name]
            reason = groups.load_record(name, key_fields, value_fields)
            if record_type in rules.refused_types:
                reason = f"Received an unknown record type {record_type}"
            if reason is not None:
                self._refuse(record, description, reason, [version_name])

    @staticmethod
    def _read_value_version(record: StreamedRecord) -> int | None:
        """The version of a value; None for a tombstone, -1 if it has none."""
        if record.value is None:
            return None
        return int.from_bytes(record.value[:2], "big", signed=True) if len(record.value) > 1 else -1

    @staticmethod
    def _find_version_fault(
        version_name: str, version: KafkaVersion, record_type: int, value_version: int | None
    ) -> str | None:
        """The exception of a value's version in a release; None if the release reads it."""
        if value_version is None:
            return None
        rules = find_group_rules(version.release)
        if version_name == _LAST_OLD_VERSION:
            kind = {0: "offset", 1: "offset", 2: "group metadata"}.get(record_type)
            if kind is None or 0 <= value_version <= _LAST_GROUP_VALUE_VERSION:
                return None
            return f"Unknown {kind} message version: {value_version}"
        if not rules.checks_value_version or record_type not in rules.known_types:
            return None
        last_version = _LAST_GROUP_VALUE_VERSION if record_type in (1, 2) else 0
        if record_type == 0:
            last_version = rules.legacy_value_version
        if 0 <= value_version <= last_version:
            return None
        return f"Unknown version {value_version} of the value"

    def _decode_key(self, key: bytes) -> tuple[str, FieldDict] | None:
        """The name of a key's message and its fields; None for an unknown type, which is ignored,
        and for a malformed key."""
        decoded_key = self._decoder.decode_key(key)
        if decoded_key is None or decoded_key.stored_values is None or decoded_key.error:
            return None
        return decoded_key.message_name or "", FieldDict(decoded_key.stored_values)

    def _decode_value(self, record: StreamedRecord, key: bytes) -> FieldDict | None:
        decoded_value = (
            None if record.value is None else self._decoder.decode_value(key, record.value)
        )
        if decoded_value is None or decoded_value.stored_values is None or decoded_value.error:
            return None
        return FieldDict(decoded_value.stored_values)

    # Transactions and share groups.

    def _load_transaction(self, record: StreamedRecord, key: bytes) -> None:
        if int.from_bytes(key[:2], "big", signed=True):
            return  # an unknown type, which is ignored
        if (decoded_key := self._decode_key(key)) is None:
            return
        transactional_id = decoded_key[1].transactional_id
        self.unfinished_by_offset.pop(self._unfinished_offset_by_id.pop(transactional_id, -1), None)
        if record.value is None:
            return
        name = f"of transactional id {transactional_id}"
        value_version = self._read_value_version(record)
        if value_version not in range(_LAST_TRANSACTION_VALUE_VERSION + 1):
            reason = f"Unknown version {value_version} from the transaction log message value"
            strict_versions = [
                version.name
                for version in self._loading_versions.values()
                if version.release < _FIRST_RELEASE_IGNORING_VALUES
            ]
            self._refuse(record, name, reason, strict_versions)
            return
        value_fields = self._decode_value(record, key)
        if value_fields is None:
            return
        status = value_fields.transaction_status
        if not 0 <= status < len(TRANSACTION_STATES):
            reason = f"Unknown transaction state id {status} from the transaction status message"
            self._refuse(record, name, reason, list(self._loading_versions))
        elif status and value_fields.transaction_partitions is None:
            reason = f"its partitions are null in state {TRANSACTION_STATES[status]}"
            self._refuse(record, name, reason, list(self._loading_versions))
        elif transaction := UnfinishedTransaction.from_log(transactional_id, value_fields):
            self.unfinished_by_offset[record.offset] = transaction
            self._unfinished_offset_by_id[transactional_id] = record.offset

    def _load_share_record(self, record: StreamedRecord, key: bytes) -> None:
        if (decoded_key := self._decode_key(key)) is None:
            return
        message_name, key_fields = decoded_key
        name = f"{message_name.removesuffix('Key')} of group {key_fields.group_id}"
        versions = list(self._loading_versions)
        value_version = self._read_value_version(record)
        if value_version is None:
            if int.from_bytes(key[:2], "big") == _SHARE_UPDATE_TYPE:
                self._refuse(record, name, "the value of an update is null", versions)
        elif value_version:
            reason = f"Unknown version {value_version} of the value"
            self._refuse(record, name, reason, versions)
