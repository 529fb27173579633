"""`kfmt state` reports what the broker of the directory reported through Kafka's own commands.

The test kills the broker before kfmt reads, so that both describe the same moment.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.decoded_records import DECODER_BY_TOPIC, kfmt_messages, tool_messages
from tests.support.samples import Row, kfmt
from tools.kafka import NEWEST, SAMPLES, dump_log, missing
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


def wait_for_output(command: Callable[[], str], pattern: str) -> str:
    """Repeat a command until its output matches a pattern; returns the output."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if re.search(pattern, output := command()):
            return output
        time.sleep(0.5)
    raise AssertionError(f"{pattern!r} is not in {output}")


def split_lines(text: str) -> list[list[str]]:
    """The columns of each line that is not blank."""
    return [line.split() for line in text.splitlines() if line.strip()]


def committed(text: str) -> set[tuple[str, ...]]:
    """Group, topic, partition, committed offset, log end and lag from the output of --describe."""
    return {
        tuple(row[:6])
        for row in split_lines(text)
        if len(row) > 6 and row[2].isdigit() and row[3].isdigit()
    }


def states(text: str) -> set[tuple[str, str, str]]:
    """Group, state and number of members from the output of --describe --state."""
    rows = split_lines(text)
    return {(row[0], row[-2], row[-1]) for row in rows if row[-1].isdigit() and len(row) > 3}


def topics(text: str) -> tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]:
    """Topics and partitions from the output of --describe."""
    topic_rows, partitions = set(), set()
    for line in text.splitlines():
        if match := re.match(r"Topic: (\S+)\tTopicId: (\S+)\tPartitionCount: (\d+)", line):
            topic_rows.add((match[1], match[2], int(match[3])))
        elif match := re.match(
            r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S*)\tIsr: ([\d,]*)", line
        ):
            leader = -1 if match[3] == "none" else int(match[3])
            replicas, isr = (
                tuple(sorted(int(number) for number in numbers.split(",") if number))
                for numbers in match.group(4, 5)
            )
            partitions.add((match[1], int(match[2]), leader, replicas, isr))
    return topic_rows, partitions


def topic_settings(text: str) -> dict[str, dict[str, str]]:
    """The settings of each topic from the output of --describe."""
    settings: dict[str, dict[str, str]] = {}
    topic = ""
    for line in text.splitlines():
        if match := re.match(r"Dynamic configs for topic (\S+) are:", line):
            topic = match[1]
        elif match := re.match(r"  (\S+?)=(\S*) sensitive=", line):
            settings.setdefault(topic, {})[match[1]] = match[2]
    return settings


def select_columns(rows: list[Row], kind: str, *names: str) -> set[tuple[Any, ...]]:
    """Some columns of the rows of a type, with sorted lists."""
    return {
        tuple(
            tuple(sorted(value)) if isinstance(value, list) else value
            for value in map(row.get, names)
        )
        for row in rows
        if row["type"] == kind
    }


def test_state_is_what_a_broker_of_3_9_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", data)
    with live("3.9.1", data, tmp_path, AUTHORIZER) as broker:
        change_metadata(broker)
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
            wait_for_output(
                lambda: broker.command(GROUPS, "--describe", "--all-groups"),
                r"reader +orders +0 +\d+",
            )
            wait_for_output(lambda: broker.command(TRANSACTIONS, "list"), r"pay-1.*Ongoing")
            outputs = {
                "offsets": broker.command(GROUPS, "--describe", "--all-groups"),
                "states": broker.command(GROUPS, "--describe", "--all-groups", "--state"),
                "transactions": broker.command(TRANSACTIONS, "list"),
                "topics": broker.command(TOPICS, "--describe"),
                "configs": broker.command(CONFIGS, "--describe", "--entity-type", "topics"),
                "users": broker.command(CONFIGS, "--describe", "--entity-type", "users"),
                "acls": broker.command(ACLS, "--list"),
            }
            broker.kill()  # before its clients, which leave their groups when they end
    rows = kfmt("state", data, "--json").rows

    kfmt_rows = select_columns(
        rows, "committed_offset", "group", "topic", "partition", "offset", "log_end_offset", "lag"
    )
    assert {tuple(map(str, row_)) for row_ in kfmt_rows} == committed(outputs["offsets"])
    assert len(kfmt_rows) == 3
    kfmt_rows = select_columns(rows, "group", "group", "state", "members")
    assert {tuple(map(str, row_)) for row_ in kfmt_rows} == states(outputs["states"])
    assert ("reader", "Stable", 1) in kfmt_rows

    kafka_rows = {tuple(row[:1] + row[2:4]) for row in split_lines(outputs["transactions"])[1:]}
    kfmt_rows = select_columns(rows, "transactional_id", "transactional_id", "producer_id", "state")
    assert {tuple(map(str, row_)) for row_ in kfmt_rows} == kafka_rows
    (open_transaction,) = [row for row in rows if row.get("transactional_id") == "pay-1"]
    assert open_transaction["partitions"][0]["topic"] == "made"

    topic_rows, partitions = topics(outputs["topics"])
    assert select_columns(rows, "topic", "topic", "topic_id", "partitions") == topic_rows
    assert (
        select_columns(rows, "partition", "topic", "partition", "leader", "replicas", "isr")
        == partitions
    )
    settings: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["type"] == "config" and row["resource_type"] == "TOPIC":
            settings.setdefault(row["resource"], {})[row["name"]] = row["value"]
    assert settings == topic_settings(outputs["configs"])

    (quota,) = [row for row in rows if row["type"] == "quota"]
    assert quota["entity"] == {"user": "bob"}
    assert "user-principal 'bob' are producer_byte_rate=1024.0" in outputs["users"]
    assert (quota["name"], quota["value"]) == ("producer_byte_rate", 1024.0)
    assert "user-principal 'alice' are SCRAM-SHA-256=iterations=8192" in outputs["users"]
    assert select_columns(rows, "scram_user", "user", "mechanism", "iterations") == {
        ("alice", "SCRAM-SHA-256", 8192)
    }
    assert "secret" not in str(rows)
    (acl,) = [row for row in rows if row["type"] == "acl"]
    assert "principal=User:carol, host=*, operation=READ, permissionType=ALLOW" in outputs["acls"]
    assert [
        acl[name] for name in ("principal", "host", "operation", "permission_type", "resource")
    ] == [*("User:carol", "*", "READ", "ALLOW", "orders")]


def change_metadata(broker: Live) -> None:
    """Create, change and delete topics, users and ACLs."""
    create_options = ("--create", "--topic", "made", "--partitions", "3")
    broker.command(TOPICS, *create_options, "--config", "retention.ms=1000000")
    broker.command(TOPICS, "--delete", "--topic", "big-records")
    alter_options = ("--alter", "--entity-type", "topics", "--entity-name", "codec-none")
    broker.command(CONFIGS, *alter_options, "--add-config", "max.message.bytes=2000000")
    broker.command(CONFIGS, *alter_options, "--delete-config", "segment.bytes")
    user_options = ("--alter", "--entity-type", "users", "--entity-name")
    broker.command(CONFIGS, *user_options, "bob", "--add-config", "producer_byte_rate=1024")
    credential = "SCRAM-SHA-256=[iterations=8192,password=secret]"
    broker.command(CONFIGS, *user_options, "alice", "--add-config", credential)
    acl_options = (
        "--add",
        "--allow-principal",
        "User:carol",
        "--operation",
        "Read",
        "--topic",
        "orders",
    )
    broker.command(ACLS, *acl_options)


@pytest.mark.parametrize("version", ["4.2.0", NEWEST])
def test_state_and_messages_are_what_a_newer_broker_says(version: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    format_storage(version, data, tmp_path)
    with live(version, data, tmp_path, AUTHORIZER) as broker:
        broker.command(TOPICS, "--create", "--topic", "big-records")
        broker.command(
            TOPICS, "--create", "--topic", "codec-none", "--config", "segment.bytes=2000000"
        )
        change_metadata(broker)
        broker.command(TOPICS, "--create", "--topic", "orders", "--partitions", "2")
        producer_options = ("--topic", "orders", "--num-records", "20", "--record-size", "9")
        connection_options = ("--throughput", "-1", "--bootstrap-server", broker.address)
        broker.command(PRODUCER, *producer_options, *connection_options, bootstrap=False)
        group_options = ("--group", "newer", "--consumer-property", "group.protocol=consumer")
        topic_options = ("--topic", "orders", "--from-beginning")
        with (
            broker.running(CONSUMER, *topic_options, *group_options),
            broker.running(SHARE_CONSUMER, "--topic", "orders", "--group", "sharers"),
        ):
            describe_group = ("--describe", "--group", "newer")
            wait_for_output(
                lambda: broker.ran(GROUPS, *describe_group).stdout, r"newer +orders +0 +\d+"
            )
            state = wait_for_output(
                lambda: broker.ran(GROUPS, *describe_group, "--state").stdout, "Stable"
            )
            describe_shares = ("--describe", "--group", "sharers")
            shares = wait_for_output(
                lambda: broker.ran(SHARE_GROUPS, *describe_shares, "--state").stdout, r"Stable +1"
            )
            # To be shared.
            broker.command(PRODUCER, *producer_options, *connection_options, bootstrap=False)
            transactional_id = ("--transactional-id", "pay-1", "--transaction-duration-ms", "50")
            broker.command(
                PRODUCER, *producer_options, *connection_options, *transactional_id, bootstrap=False
            )
            starts = wait_for_output(
                lambda: broker.ran(SHARE_GROUPS, *describe_shares).stdout,
                r"sharers +orders +\d +\d+",
            )
            # Once everything is committed, the broker and its disk have the same offsets.
            pattern = r"(?s)orders +\d +(\d+) +\1 +0 .*orders +\d +(\d+) +\2 +0 "
            offsets = wait_for_output(lambda: broker.ran(GROUPS, *describe_group).stdout, pattern)
            described = broker.command(TOPICS, "--describe")
            broker.kill()
    assert_messages_are_the_tools(version, data)
    rows = kfmt("state", data, "--json").rows
    groups = select_columns(rows, "group", "group", "state", "members", "group_type")
    assert groups == {("newer", "Stable", 1, "consumer"), ("sharers", "Stable", 1, "share")}
    assert ("newer", "Stable", "1") in states(state)
    assert ("sharers", "Stable", "1") in states(shares)
    kfmt_rows = select_columns(
        rows, "committed_offset", "group", "topic", "partition", "offset", "log_end_offset", "lag"
    )
    assert {tuple(map(str, row_)) for row_ in kfmt_rows} == committed(offsets)
    topic_rows, partitions = topics(described)
    assert select_columns(rows, "topic", "topic", "topic_id", "partitions") == topic_rows
    assert (
        select_columns(rows, "partition", "topic", "partition", "leader", "replicas", "isr")
        == partitions
    )
    sharer_lines = [row for row in split_lines(starts) if row[0] == "sharers" and row[3].isdigit()]
    kafka_rows = {(row[0], *map(int, row[2:5])) for row in sharer_lines}
    assert kafka_rows
    kfmt_rows = select_columns(rows, "share_partition", "group", "partition", "start_offset", "lag")
    # A partition not read yet has the start offset -1, for which the command prints a dash.
    assert {row_ for row_ in kfmt_rows if row_[2] >= 0} == kafka_rows


def assert_messages_are_the_tools(version: str, data: Path) -> None:
    """Every record of the internal topics and snapshots is as kafka-dump-log decodes it."""
    for topic, decoder in DECODER_BY_TOPIC.items():
        files = sorted(
            path
            for directory in data.glob(f"{topic}-*")
            for path in directory.iterdir()
            if path.suffix in (".log", ".checkpoint") and path.stat().st_size
        )
        texts = dump_log(version, files, data, decoder)
        messages = {path: tool_messages(text) for path, text in texts.items()}
        assert sum(map(len, messages.values())) > 0, topic
        for path, tool_messages_by_offset in messages.items():
            rows = kfmt("dump", path, "--records", "--json").of("record")
            row_by_offset = {row["offset"]: row for row in rows}
            for offset, expected_messages in tool_messages_by_offset.items():
                row = row_by_offset[offset]
                assert kfmt_messages(row) == expected_messages, (path, offset)
                assert "unknown_tagged_fields" not in str(row)
