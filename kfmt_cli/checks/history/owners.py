"""The owner of log directories, and the replicas that they must have, by the metadata log."""

from __future__ import annotations

from collections.abc import Iterator

from kfmt_cli.broker.start.brokers import Broker
from kfmt_cli.checks.history.scopes import BrokerCheck, some_of
from kfmt_cli.core.urls import name_text
from kfmt_cli.disk.kinds import META_PROPERTIES
from kfmt_cli.disk.names import parsed_place, suffix_of
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding


class Owners(BrokerCheck):
    """A log directory belongs to the broker that its meta.properties names."""

    codes = (codes.OWNER_CONTRADICTED,)

    def look(self, broker: Broker) -> Iterator[Finding]:
        owner = broker.other_owner
        if owner is None:
            return
        identity = owner.directory.identity
        mine = identity.node_id
        what = "every partition here"
        if owner.by_id:
            what = f"directory.id {identity.directory_id}"
        words = f"node.id is {mine}, but the metadata log assigns {what} to broker {owner.node}"
        file = f"{name_text(owner.directory.path)}/{min(META_PROPERTIES.names)}"
        yield Finding(file, codes.OWNER_CONTRADICTED, None, words, expected=owner.node, found=mine)


class MissingReplicas(BrokerCheck):
    """Every replica that the metadata log gives to a log directory is there.

    A partition without other replicas is left out: nothing can be truncated to its empty log, and
    the checkpoints tell that it was here.
    """

    codes = (codes.REPLICA_MISSING,)

    def look(self, broker: Broker) -> Iterator[Finding]:
        there = {
            parsed_place(replica.name)
            for replica in broker.replicas
            if suffix_of(replica.name) not in ("delete", "stray")
        }
        for directory in broker.directories:
            if not directory.is_listed:
                continue
            missing = [
                f"{topic}-{partition}"
                for topic, partition in broker.assigned(directory)
                if (topic, partition) not in there
            ]
            if missing:
                words = f"no directory for {some_of(missing)}"
                yield Finding(name_text(directory.path), codes.REPLICA_MISSING, None, words)


class MovingReplicas(BrokerCheck):
    """No replica is on the way from one log directory to another."""

    codes = (codes.REPLICA_MOVING,)

    def look(self, broker: Broker) -> Iterator[Finding]:
        every = broker.replicas
        current = {
            parsed_place(replica.name): replica for replica in every if not suffix_of(replica.name)
        }
        for replica in every:
            if suffix_of(replica.name) == "future":
                other = current.get(parsed_place(replica.name))
                words = "the replica that it replaces was not found"
                if other is not None:
                    words = f"replaces {other.shown}"
                yield Finding(replica.shown, codes.REPLICA_MOVING, None, words)
