"""`kfmt state` says of a directory what the broker that ran on it said of it through Kafka's own
commands. The broker is killed before kfmt looks, so that both speak of the same moment."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import Row, kfmt
from tools.kafka import SAMPLES, missing
from tools.live import Live, format_storage, live

pytestmark = [
    pytest.mark.interop,
    pytest.mark.brokers,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "kafka.admin.AclCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
PATIENCE = 60.0


def until(ask: Callable[[], str], words: str) -> str:
    """What a command says once it says these words."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if re.search(words, said := ask()):
            return said
        time.sleep(0.5)
    raise AssertionError(f"{words!r} is not in {said}")


def words_of(text: str) -> list[list[str]]:
    """The words of each line that has some."""
    return [line.split() for line in text.splitlines() if line.strip()]


def committed(text: str) -> set[tuple[str, ...]]:
    """Group, topic, partition, committed offset, log end, lag: of --describe."""
    return {
        tuple(row[:6])
        for row in words_of(text)
        if len(row) > 6 and row[2].isdigit() and row[3].isdigit()
    }


def states(text: str) -> set[tuple[str, str, str]]:
    """Group, state, number of members: of --describe --state."""
    rows = words_of(text)
    return {(row[0], row[-2], row[-1]) for row in rows if row[-1].isdigit() and len(row) > 3}


def topics(text: str) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Topics and partitions: of --describe."""
    made, partitions = set(), set()
    for line in text.splitlines():
        if match := re.match(r"Topic: (\S+)\tTopicId: (\S+)\tPartitionCount: (\d+)", line):
            made.add((match[1], match[2], int(match[3])))
        elif match := re.match(
            r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S*)\tIsr: ([\d,]*)", line
        ):
            leader = -1 if match[3] == "none" else int(match[3])
            replicas, isr = (
                tuple(sorted(int(each_str) for each_str in words.split(",") if each_str))
                for words in match.group(4, 5)
            )
            partitions.add((match[1], int(match[2]), leader, replicas, isr))
    return made, partitions


def settings_of(text: str) -> dict[str, dict[str, str]]:
    """The settings of each topic that has some: of --describe."""
    found: dict[str, dict[str, str]] = {}
    topic = ""
    for line in text.splitlines():
        if match := re.match(r"Dynamic configs for topic (\S+) are:", line):
            topic = match[1]
        elif match := re.match(r"  (\S+?)=(\S*) sensitive=", line):
            found.setdefault(topic, {})[match[1]] = match[2]
    return found


def of_kind(rows: list[Row], kind: str, *names: str) -> set[tuple[Any, ...]]:
    """Some columns of the rows of a type; lists sorted."""
    return {
        tuple(
            tuple(sorted(each_any)) if isinstance(each_any, list) else each_any
            for each_any in map(row.get, names)
        )
        for row in rows
        if row["type"] == kind
    }


def test_state_is_what_a_broker_of_3_9_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", data)
    with live("3.9.1", data, tmp_path, AUTHORIZER) as broker:
        change(broker)
        consuming = broker.running(CONSUMER, "--topic", "orders", "--group", "reader")
        payments = (
            *(
                "--topic",
                "made",
                "--num-records",
                "50000",
                "--record-size",
                "9",
                "--throughput",
                "5",
            ),
            *("--producer-props", f"bootstrap.servers={broker.address}"),
            *("--transactional-id", "pay-1", "--transaction-duration-ms", "600000"),
        )
        with consuming, broker.running(PRODUCER, *payments, bootstrap=False):
            until(
                lambda: broker.command(GROUPS, "--describe", "--all-groups"),
                r"reader +orders +0 +\d+",
            )
            until(lambda: broker.command(TRANSACTIONS, "list"), r"pay-1.*Ongoing")
            said = {
                "offsets": broker.command(GROUPS, "--describe", "--all-groups"),
                "states": broker.command(GROUPS, "--describe", "--all-groups", "--state"),
                "transactions": broker.command(TRANSACTIONS, "list"),
                "topics": broker.command(TOPICS, "--describe"),
                "configs": broker.command(CONFIGS, "--describe", "--entity-type", "topics"),
                "users": broker.command(CONFIGS, "--describe", "--entity-type", "users"),
                "acls": broker.command(ACLS, "--list"),
            }
            broker.kill()  # before its clients, which would leave their groups
    rows = kfmt("state", data, "--json").rows

    ours = of_kind(
        rows, "committed_offset", "group", "topic", "partition", "offset", "log_end_offset", "lag"
    )
    assert {tuple(map(str, pair)) for pair in ours} == committed(said["offsets"])
    assert len(ours) == 3
    ours = of_kind(rows, "group", "group", "state", "members")
    assert {tuple(map(str, pair)) for pair in ours} == states(said["states"])
    assert ("reader", "Stable", 1) in ours

    theirs = {tuple(row[:1] + row[2:4]) for row in words_of(said["transactions"])[1:]}
    ours = of_kind(rows, "transactional_id", "transactional_id", "producer_id", "state")
    assert {tuple(map(str, pair)) for pair in ours} == theirs
    (open_one,) = [row for row in rows if row.get("transactional_id") == "pay-1"]
    assert open_one["partitions"][0]["topic"] == "made"

    made, partitions = topics(said["topics"])
    assert of_kind(rows, "topic", "topic", "topic_id", "partitions") == made
    assert (
        of_kind(rows, "partition", "topic", "partition", "leader", "replicas", "isr") == partitions
    )
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["type"] == "config" and row["resource_type"] == "TOPIC":
            found.setdefault(row["resource"], {})[row["name"]] = row["value"]
    assert found == settings_of(said["configs"])

    (quota,) = [row for row in rows if row["type"] == "quota"]
    assert quota["entity"] == {"user": "bob"}
    assert "user-principal 'bob' are producer_byte_rate=1024.0" in said["users"]
    assert (quota["name"], quota["value"]) == ("producer_byte_rate", 1024.0)
    assert "user-principal 'alice' are SCRAM-SHA-256=iterations=8192" in said["users"]
    assert of_kind(rows, "scram_user", "user", "mechanism", "iterations") == {
        ("alice", "SCRAM-SHA-256", 8192)
    }
    assert "secret" not in str(rows)
    (acl,) = [row for row in rows if row["type"] == "acl"]
    assert "principal=User:carol, host=*, operation=READ, permissionType=ALLOW" in said["acls"]
    assert [
        acl[name] for name in ("principal", "host", "operation", "permission_type", "resource")
    ] == [*("User:carol", "*", "READ", "ALLOW", "orders")]


def change(broker: Live) -> None:
    """Make, change and delete things."""
    made = ("--create", "--topic", "made", "--partitions", "3")
    broker.command(TOPICS, *made, "--config", "retention.ms=1000000")
    broker.command(TOPICS, "--delete", "--topic", "big-records")
    alter = ("--alter", "--entity-type", "topics", "--entity-name", "codec-none")
    broker.command(CONFIGS, *alter, "--add-config", "max.message.bytes=2000000")
    broker.command(CONFIGS, *alter, "--delete-config", "segment.bytes")
    of_user = ("--alter", "--entity-type", "users", "--entity-name")
    broker.command(CONFIGS, *of_user, "bob", "--add-config", "producer_byte_rate=1024")
    credential = "SCRAM-SHA-256=[iterations=8192,password=secret]"
    broker.command(CONFIGS, *of_user, "alice", "--add-config", credential)
    rule = ("--add", "--allow-principal", "User:carol", "--operation", "Read", "--topic", "orders")
    broker.command(ACLS, *rule)


def test_state_is_what_a_broker_of_4_2_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    format_storage("4.2.0", data, tmp_path)
    with live("4.2.0", data, tmp_path) as broker:
        broker.command(TOPICS, "--create", "--topic", "orders", "--partitions", "2")
        sent = ("--topic", "orders", "--num-records", "20", "--record-size", "9")
        props = ("--throughput", "-1", "--bootstrap-server", broker.address)
        broker.command(PRODUCER, *sent, *props, bootstrap=False)
        newer = ("--group", "newer", "--consumer-property", "group.protocol=consumer")
        first = ("--topic", "orders", "--from-beginning")
        with (
            broker.running(CONSUMER, *first, *newer),
            broker.running(SHARE_CONSUMER, "--topic", "orders", "--group", "sharers"),
        ):
            ask_groups = ("--describe", "--group", "newer")
            until(lambda: broker.ran(GROUPS, *ask_groups).stdout, r"newer +orders +0 +\d+")
            state = until(lambda: broker.ran(GROUPS, *ask_groups, "--state").stdout, "Stable")
            of_shares = ("--describe", "--group", "sharers")
            shares = until(
                lambda: broker.ran(SHARE_GROUPS, *of_shares, "--state").stdout, r"Stable +1"
            )
            broker.command(PRODUCER, *sent, *props, bootstrap=False)  # to be shared
            starts = until(
                lambda: broker.ran(SHARE_GROUPS, *of_shares).stdout, r"sharers +orders +\d +\d+"
            )
            # When everything is committed, what is asked and what is on the disk are the same.
            done = r"(?s)orders +\d +(\d+) +\1 +0 .*orders +\d +(\d+) +\2 +0 "
            offsets = until(lambda: broker.ran(GROUPS, *ask_groups).stdout, done)
            described = broker.command(TOPICS, "--describe")
            broker.kill()
    rows = kfmt("state", data, "--json").rows
    groups = of_kind(rows, "group", "group", "state", "members", "group_type")
    assert groups == {("newer", "Stable", 1, "consumer"), ("sharers", "Stable", 1, "share")}
    assert ("newer", "Stable", "1") in states(state)
    assert ("sharers", "Stable", "1") in states(shares)
    ours = of_kind(
        rows, "committed_offset", "group", "topic", "partition", "offset", "log_end_offset", "lag"
    )
    assert {tuple(map(str, pair)) for pair in ours} == committed(offsets)
    made, partitions = topics(described)
    assert of_kind(rows, "topic", "topic", "topic_id", "partitions") == made
    assert (
        of_kind(rows, "partition", "topic", "partition", "leader", "replicas", "isr") == partitions
    )
    of_sharers = [row for row in words_of(starts) if row[0] == "sharers" and row[3].isdigit()]
    theirs = {(row[0], *map(int, row[2:5])) for row in of_sharers}
    assert theirs
    ours = of_kind(rows, "share_partition", "group", "partition", "start_offset", "lag")
    # One that nothing was read of yet has a start offset of -1, for which the command has a dash.
    assert {pair for pair in ours if pair[2] >= 0} == theirs
