"""__cluster_metadata: the metadata of a KRaft cluster.

Source: `org.apache.kafka.image.MetadataDelta` and the deltas that it passes records to. Records
between the marks of a transaction take effect together (KIP-868).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kfmt_cli.broker.state.partition_states import ClusterPartitions
from kfmt_cli.broker.state.replay import Data, Replay
from kfmt_cli.broker.state.settings import Settings
from kfmt_cli.core.layout.messages import read_message, self_versioned
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.formats.kafka_messages import message
from kfmt_cli.formats.kraft import KRAFT_MESSAGES
from kfmt_cli.formats.meanings import SECURITY_PROTOCOLS
from kfmt_cli.log.stream import Record
from kfmt_cli.rows.types.state_types import (
    ACL,
    BROKER,
    CONFIG,
    CONTROLLER,
    DELEGATION_TOKEN,
    FEATURE,
    PARTITION,
    PRODUCER_IDS,
    QUOTA,
    SCRAM_USER,
    TOPIC,
    StateType,
)

KRAFT_VERSION = CONTROL_TYPES.index("KRAFT_VERSION")
FENCED, ACTIVE, STOPPING = "fenced", "active", "in-controlled-shutdown"


class Cluster(Replay):
    """Brokers, topics, settings and access rights of a cluster."""

    topic = "__cluster_metadata"
    types = (
        BROKER,
        CONTROLLER,
        FEATURE,
        TOPIC,
        PARTITION,
        CONFIG,
        ACL,
        QUOTA,
        SCRAM_USER,
        DELEGATION_TOKEN,
        PRODUCER_IDS,
    )

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        self._brokers: dict[int, Data] = {}
        self._controllers: dict[int, Data] = {}
        self._acls: dict[str, Data] = {}
        self._users: dict[tuple[str, int], Data] = {}
        self._tokens: dict[str, Data] = {}
        self._producer_ids: Data | None = None
        self._partitions = ClusterPartitions()
        self._settings = Settings()
        self._held: list[tuple[str, Data]] | None = None

    def take(self, record: Record) -> None:
        if record.control is not None:
            self._control(record)
            return
        said = self.decoder.value(record.key, record.value)
        data = self.understood(record, said)
        if data is None or said is None or said.name is None:
            return
        if said.name == "BeginTransactionRecord":
            self._held = []
        elif said.name in ("EndTransactionRecord", "AbortTransactionRecord"):
            held, self._held = self._held or [], None
            for name, row in held if said.name == "EndTransactionRecord" else ():
                self._apply(name, row)
        elif self._held is not None:
            self._held.append((said.name, data))
        else:
            self._apply(said.name, data)

    def _control(self, record: Record) -> None:
        if record.control != KRAFT_VERSION or record.value is None:
            return
        message = KRAFT_MESSAGES[KRAFT_VERSION]
        layout = self_versioned(message, record.value, 0, len(record.value))
        if layout is not None:
            said = read_message(layout, record.value, 0, len(record.value)).values
            if "kraft_version" in said:
                level = said.kraft_version
                self._settings.feature(Data(name="kraft.version", feature_level=level))

    def _apply(self, name: str, data: Data) -> None:
        """Apply a record; records without an effect on the state are ignored."""
        effect = self._EFFECTS.get(name)
        if effect is not None:
            effect(self, data)

    # Brokers and controllers.

    def _register(self, data: Data) -> None:
        self._brokers[data.broker_id] = data

    def _unregister(self, data: Data) -> None:
        self._brokers.pop(data.broker_id, None)

    def _fence(self, data: Data, fenced: bool) -> None:
        if (broker := self._brokers.get(data.id)) is not None:
            broker.fenced = fenced

    def _change_broker(self, data: Data) -> None:
        broker = self._brokers.get(data.broker_id)
        if broker is None:
            return
        if data.get("fenced"):
            broker.fenced = data.fenced > 0
        if data.get("in_controlled_shutdown"):
            broker.in_controlled_shutdown = True
        if data.get("log_dirs"):
            broker.log_dirs = data.log_dirs

    def _register_controller(self, data: Data) -> None:
        self._controllers[data.controller_id] = data

    # Access rights.

    def _acl(self, data: Data) -> None:
        self._acls[data.id] = data

    def _remove_acl(self, data: Data) -> None:
        self._acls.pop(data.id, None)

    def _user(self, data: Data) -> None:
        self._users[data.name, data.mechanism] = data

    def _remove_user(self, data: Data) -> None:
        self._users.pop((data.name, data.mechanism), None)

    def _token(self, data: Data) -> None:
        self._tokens[data.token_id] = data

    def _remove_token(self, data: Data) -> None:
        self._tokens.pop(data.token_id, None)

    def _ids(self, data: Data) -> None:
        self._producer_ids = data

    def _remove_topic(self, data: Data) -> None:
        name = self._partitions.remove_topic(data)
        if name is not None:
            self._settings.forget_topic(name)

    _EFFECTS: ClassVar[dict[str, Callable[[Cluster, Data], None]]] = {
        "RegisterBrokerRecord": _register,
        "UnregisterBrokerRecord": _unregister,
        "FenceBrokerRecord": lambda self, data: self._fence(data, True),
        "UnfenceBrokerRecord": lambda self, data: self._fence(data, False),
        "BrokerRegistrationChangeRecord": _change_broker,
        "RegisterControllerRecord": _register_controller,
        "TopicRecord": lambda self, data: self._partitions.topic(data),
        "PartitionRecord": lambda self, data: self._partitions.partition(data),
        "PartitionChangeRecord": lambda self, data: self._partitions.change(data),
        "RemoveTopicRecord": _remove_topic,
        "ClearElrRecord": lambda self, data: self._partitions.clear_elr(data),
        "ConfigRecord": lambda self, data: self._settings.config(data),
        "FeatureLevelRecord": lambda self, data: self._settings.feature(data),
        "ClientQuotaRecord": lambda self, data: self._settings.quota(data),
        "AccessControlEntryRecord": _acl,
        "RemoveAccessControlEntryRecord": _remove_acl,
        "UserScramCredentialRecord": _user,
        "RemoveUserScramCredentialRecord": _remove_user,
        "DelegationTokenRecord": _token,
        "RemoveDelegationTokenRecord": _remove_token,
        "ProducerIdsRecord": _ids,
    }

    def rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for broker in self._brokers.values():
            state = STOPPING if broker.get("in_controlled_shutdown") else ACTIVE
            if broker.get("fenced", True):
                state = FENCED
            yield BROKER, {**broker, "state": state, "end_points": _end_points(broker)}
        for controller in self._controllers.values():
            yield CONTROLLER, {**controller, "end_points": _end_points(controller)}
        yield from self._partitions.rows()
        yield from self._settings.rows()
        for acl in self._acls.values():
            yield (
                ACL,
                {
                    **_named(message("AccessControlEntryRecord"), acl),
                    "resource": acl.resource_name,
                },
            )
        for user in self._users.values():
            named = _named(message("UserScramCredentialRecord"), user)
            yield (
                SCRAM_USER,
                {
                    "user": user.name,
                    "mechanism": named["mechanism"],
                    "iterations": user.iterations,
                },
            )
        for token in self._tokens.values():
            yield DELEGATION_TOKEN, token
        if self._producer_ids is not None:
            yield PRODUCER_IDS, self._producer_ids


def _end_points(record: Data) -> list[dict[str, Any]]:
    """The listeners of a node, with protocol names."""
    known = dict(enumerate(SECURITY_PROTOCOLS))
    return [
        {
            "name": point.name,
            "host": point.host,
            "port": point.port,
            "security_protocol": known.get(
                point.security_protocol, f"unknown-{point.security_protocol}"
            ),
        }
        for point in record.end_points
    ]


def _named(message: Any, record: Data) -> dict[str, Any]:
    """A message's data with names for its numbers."""
    return {
        field.name: field.symbol(record[field.name]) or record[field.name]
        for field in message.fields
        if field.name in record
    }
