"""kfmt replay into a real cluster: a consumer reads the disks' records, and groups continue."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.broker.partitioners import hash_to_partition, murmur2
from tests.support.consuming import consumed
from tests.support.samples import ORDERS, TXN, Done, Row, environment, kfmt
from tests.support.waiting import wait_for
from tools.broker import consume_all
from tools.kafka import ROOT, SAMPLES, missing
from tools.live import Live, format_storage, live

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
VERSION = "3.9.1"
BROKER = SAMPLES / "kafka-3.9.1-broker1"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "kafka.admin.AclCommand"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A cluster of one broker, without topics at first."""
    scratch = tmp_path_factory.mktemp("cluster")
    (scratch / "data").mkdir()
    format_storage(VERSION, scratch / "data", scratch)
    with live(VERSION, scratch / "data", scratch, AUTHORIZER) as broker:
        yield broker


def replay(cluster: Live, *arguments: str | Path) -> Done:
    """Run a replay that must succeed."""
    result = kfmt("replay", *arguments, "--bootstrap-server", cluster.address, "--json")
    assert result.code == 0, result.err
    return result


def content(message: Any) -> tuple[Any, ...]:
    """All of a record except its offset."""
    headers = tuple(message.headers() or ())
    return message.timestamp()[1], message.key(), message.value(), headers


def build_partition(directory: Path, rows: list[Row]) -> Path:
    """Build a partition with these records."""
    text = "\n".join(map(json.dumps, rows)).encode()
    result = kfmt("build", "-", directory, stdin=text)
    assert result.code == 0, result.err
    return directory


def create_topic(cluster: Live, name: str, partitions: int = 1, **settings: str) -> None:
    """Create a topic before a replay."""
    client = admin.AdminClient({"bootstrap.servers": cluster.address})
    config = {key.replace("_", "."): value for key, value in settings.items()}
    new_topic = admin.NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
    client.create_topics([new_topic])[name].result()
    wait_for(lambda: name in client.list_topics(timeout=5).topics)


def produce_records(cluster: Live, topic: str, n: int) -> None:
    """Write records as another producer."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.address})
    for i in range(n):
        producer.produce(topic, b"other %d" % i, partition=0)
    assert producer.flush(30) == 0


def test_null_and_empty_headers_and_times_stay_what_they_are(cluster: Live, tmp_path: Path) -> None:
    rows: list[Row] = [
        {"key": None, "value": None, "timestamp": 5},
        {"key": "", "value": "", "timestamp": 1_700_000_000_000},
        {"key": "k", "value": None, "timestamp": -1},
        {
            "key": "k",
            "value": "v",
            "timestamp": 7,
            "headers": [
                {"key": "a", "value": None},
                {"key": "a", "value": ""},
                {"key": "ü", "value": "x"},
            ],
        },
        {"key": "k", "value": "zero", "timestamp": 0},
    ]
    (row,) = replay(cluster, build_partition(tmp_path / "small-0", rows)).of("replayed")
    assert (row["records"], row["timestamps_changed"]) == (5, 1)
    assert (row["target_first_offset"], row["target_last_offset"]) == (0, 4)
    assert [content(message) for message in consumed(cluster, "small")] == [
        (5, None, None, ()),
        (1_700_000_000_000, b"", b"", ()),
        (-1, b"k", None, ()),
        (7, b"k", b"v", (("a", None), ("a", b""), ("ü", b"x"))),
        (1, b"k", b"zero", ()),
    ]


@pytest.mark.brokers
def test_consumers_read_what_the_old_broker_would_have_served(cluster: Live) -> None:
    names = ["orders-0", "codec-zstd-0", "codec-gzip-0", "appendtime-0", "big-records-0"]
    names += ["compacted-0", "weird-times-0", "dotted.name_with-dash-0"]
    partitions = [BROKER / name for name in names]
    replay(cluster, *partitions)
    for name, served in zip(names, consume_all(partitions, recover=False), strict=True):
        expected = [
            (record.timestamp or 1, record.key, record.value, record.headers) for record in served
        ]
        actual = [content(message) for message in consumed(cluster, name.rpartition("-")[0])]
        assert actual == expected, name


@pytest.mark.brokers
def test_only_committed_records_are_sent(cluster: Live) -> None:
    (row,) = replay(cluster, TXN.parent, "--as", "committed").of("replayed")
    messages = consumed(cluster, "committed")
    assert len(messages) == row["records"]
    (served,) = consume_all([TXN.parent], recover=False, isolation="read_committed")
    # The old broker stops at the open transaction, which a running broker would have aborted.
    assert [content(message)[1:3] for message in messages[: len(served)]] == [
        (record.key, record.value) for record in served
    ]
    transactions = kfmt("txn", TXN.parent, "--json").of("transaction")
    n_not_committed = sum(
        transaction["records"]
        for transaction in transactions
        if transaction["outcome"] != "committed"
    )
    assert row["not_committed"] == n_not_committed


@pytest.mark.brokers
def test_topics_are_made_as_the_metadata_log_describes_them(cluster: Live) -> None:
    result = replay(cluster, BROKER, "--topic", "empty", "--topic", "replicated")
    assert "empty: created with 3 partitions, replication factor 1\n" in result.err
    assert "replication factor 1 instead of 2: the cluster has too few brokers" in result.err
    settings = {
        (row["resource"], row["name"]): row["value"]
        for row in kfmt("state", BROKER / "__cluster_metadata-0", "--json").of("config")
    }
    description = cluster.command(
        CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "replicated"
    )
    for (topic, name), value in settings.items():
        if topic == "replicated":
            assert f"{name}={value} " in description


@pytest.mark.brokers
def test_groups_continue_at_their_offsets(cluster: Live) -> None:
    (committed_offset,) = [
        row["offset"]
        for row in kfmt("state", BROKER, "--topic", "orders", "--json").of("committed_offset")
        if row["group"] == "billing"
    ]
    create_topic(cluster, "moved")
    produce_records(cluster, "moved", 3)
    result = replay(cluster, BROKER, "--topic", "orders", "--as", "moved", "--groups")
    (row,) = result.of("replayed_group")
    assert (row["offset"], row["target_offset"], row["committed"]) == (
        committed_offset,
        committed_offset + 3,
        True,
    )
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.address,
            "group.id": "billing",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["moved"])
    try:
        message = next(iter(consumer.consume(1, 30)))
        (next_record,) = [
            record
            for record in kfmt("dump", ORDERS.parent, "--records", "--json").of("record")
            if record["offset"] == committed_offset
        ]
        assert message.error() is None
        assert (message.value().decode(), message.timestamp()[1]) == (
            next_record["value"],
            next_record["timestamp"],
        )
        # The group now has a member, so the replay must not commit its offsets.
        refused = kfmt(
            *("replay", BROKER, "--topic", "orders", "--as", "moved", "--groups", "--json"),
            *("--bootstrap-server", cluster.address),
        )
    finally:
        consumer.close()
    assert refused.code == 3
    assert "group billing: offsets not committed: the group is stable in the cluster" in refused.err
    assert not refused.of("replayed_group")[0]["committed"]


@pytest.mark.brokers
def test_groups_stand_at_the_same_records_whatever_the_offsets(
    cluster: Live, tmp_path: Path
) -> None:
    create_topic(cluster, "shop", 2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.address, "transactional.id": "shop"}
    )
    producer.init_transactions(30)
    for n_records, is_committed in ((10, True), (5, False), (10, True)):
        producer.begin_transaction()
        for i in range(n_records):
            producer.produce("shop", f"{n_records} {i} {is_committed}", partition=0)
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    offset_by_group = {"at-start": 0, "in-aborted": 13, "after-aborted": 20, "at-end": 28}
    for group, offset in offset_by_group.items():
        commit(cluster, group, [("shop", 0, offset), ("shop", 1, 0)])
    disk = tmp_path / "disk"
    shutil.copytree(cluster.scratch / "data", disk)

    create_topic(cluster, "mall", 2)
    produce_records(cluster, "mall", 3)
    source_options = (disk, "--topic", "shop", "--as", "mall")
    state = tmp_path / "state.json"
    result = replay(cluster, *source_options, "--groups", "--state", state)
    rows = [row for row in result.of("replayed_group") if row["group"] in offset_by_group]
    assert all(row["committed"] for row in rows)
    assert len(rows) == 2 * len(offset_by_group)
    committed_messages = [
        message for message in consumed(cluster, "shop") if b"True" in message.value()
    ]
    values = {message.offset(): message.value() for message in consumed(cluster, "mall")}
    for row in rows:
        target = row["target_offset"]
        assert committed(cluster, row["group"], "mall", row["partition"]) == target
        if row["partition"] == 1:
            assert target == 0
            continue
        expected = [
            message.value() for message in committed_messages if message.offset() >= row["offset"]
        ]
        assert [value for offset, value in sorted(values.items()) if offset >= target] == expected
    # Records of an earlier run have no known target offset any more, but the end has one.
    other_state = tmp_path / "other.json"
    replay(cluster, *source_options, "--state", other_state)
    second_result = kfmt(
        *("replay", *source_options, "--groups", "--state", other_state, "--json"),
        *("--bootstrap-server", cluster.address),
    )
    assert second_result.code == 3
    assert "group after-aborted: offset 20 of shop-0 not committed" in second_result.err
    target_by_group = {
        row["group"]: row["target_offset"]
        for row in second_result.of("replayed_group")
        if row["partition"] == 0
    }
    assert target_by_group["at-end"] == len(consumed(cluster, "mall"))
    assert target_by_group["after-aborted"] is None


def commit(cluster: Live, group: str, positions: list[tuple[str, int, int]]) -> None:
    """Commit offsets as a client of a group."""
    settings = {"bootstrap.servers": cluster.address, "group.id": group}
    consumer = confluent_kafka.Consumer(settings)
    offsets = [confluent_kafka.TopicPartition(*position) for position in positions]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if "oordinator" not in str(error):  # __consumer_offsets is still new
                raise
            return False
        return True

    wait_for(is_committed)
    consumer.close()


def committed(cluster: Live, group: str, topic: str, partition: int) -> int:
    """The offset from which a client of a group continues."""
    settings = {"bootstrap.servers": cluster.address, "group.id": group}
    consumer = confluent_kafka.Consumer(settings)
    (position,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], timeout=30)
    consumer.close()
    return int(position.offset)


@pytest.mark.brokers
def test_keys_choose_the_partition_that_java_producers_choose(cluster: Live) -> None:
    create_topic(cluster, "keyed", 5)
    (row,) = replay(cluster, ORDERS.parent, "--as", "keyed", "--by-key").of("replayed")
    assert row["target_partition"] is None
    messages = [
        message for partition in range(5) for message in consumed(cluster, "keyed", partition)
    ]
    assert len(messages) == row["records"] == 1500
    for message in messages:
        if message.key() is not None:
            assert message.partition() == hash_to_partition(murmur2(message.key()), 5)


@pytest.mark.brokers
@pytest.mark.parametrize("options", [(), ("--by-key",)])
def test_after_kill_9_another_run_sends_each_record_once(
    cluster: Live, tmp_path: Path, options: tuple[str, ...]
) -> None:
    n, topic = 120_000, f"killed{len(options)}"
    rows: list[Row] = [
        {"key": f"k{i % 997}", "value": f"{i}", "timestamp": i + 1} for i in range(n)
    ]
    create_topic(cluster, topic, 3)
    produce_records(cluster, topic, 10)
    state = tmp_path / "state.json"
    directory = build_partition(tmp_path / f"{topic}-0", rows)
    state_options: tuple[str | Path, ...] = ("--state", state, *options)
    n_killed, previous_offset = 0, 0
    for rate in ("8000", "10000", "12000"):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kfmt_cli", "replay", directory, *state_options),
                *("--rate", rate, "--bootstrap-server", cluster.address),
            ],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
        )

        def acknowledged() -> bool:
            return state.exists() and _next_offset(state, topic) > previous_offset  # noqa: B023

        try:
            wait_for(acknowledged)
            time.sleep(0.4)  # so that the broker has records that the state file lacks
        finally:
            process.kill()
            n_killed += process.wait() == -signal.SIGKILL
        previous_offset = _next_offset(state, topic)
    assert n_killed == 3
    (row,) = replay(cluster, directory, *state_options).of("replayed")
    assert row["already_there"] > 0
    assert row["resumed_at"] == previous_offset
    partitions = [consumed(cluster, topic, partition) for partition in range(3)]
    values = [
        int(message.value())
        for messages in partitions
        for message in messages
        if not message.value().startswith(b"other")
    ]
    assert len(values) == n
    assert set(values) == set(range(n))
    for messages in partitions:
        keyed_values = [int(message.value()) for message in messages if message.key() is not None]
        assert keyed_values == sorted(keyed_values)


def _next_offset(state: Path, topic: str) -> int:
    sources = json.loads(state.read_bytes())["sources"]
    return int(sources.get(f"{topic}-0", {}).get("next_offset", 0))


@pytest.mark.brokers
def test_what_is_refused_is_named_and_nothing_is_sent_twice(cluster: Live, tmp_path: Path) -> None:
    rows: list[Row] = [{"value": f"{i}" * (1 if i != 50 else 4000)} for i in range(100)]
    directory = build_partition(tmp_path / "narrow-0", rows)
    create_topic(cluster, "narrow", max_message_bytes="2000")
    state = tmp_path / "state.json"
    target_options = ("--bootstrap-server", cluster.address, "--state", state)
    result = kfmt("replay", directory, *target_options)
    assert result.code == 3
    (line,) = result.err.splitlines()
    assert "narrow-0: source offset 50: a record of 8 000 bytes: " in line
    assert "too large" in line
    topic_options = ("--entity-type", "topics", "--entity-name", "narrow")
    cluster.command(CONFIGS, "--alter", *topic_options, "--add-config", "max.message.bytes=100000")
    assert kfmt("replay", directory, *target_options).code == 0
    values = [message.value().decode() for message in consumed(cluster, "narrow")]
    assert values == [row["value"] for row in rows]


@pytest.mark.brokers
def test_too_few_partitions_and_another_topic_are_refused(cluster: Live, tmp_path: Path) -> None:
    create_topic(cluster, "few")
    directory = build_partition(tmp_path / "few-2", [{"value": "a"}])
    result = kfmt("replay", directory, "--bootstrap-server", cluster.address)
    assert result.code == 3
    assert "few: has 1 partition, so partition 2 cannot be kept" in result.err
    partition = build_partition(tmp_path / "again-0", [{"value": "a"}])
    state = tmp_path / "state.json"
    replay(cluster, partition, "--state", state)
    client = admin.AdminClient({"bootstrap.servers": cluster.address})
    client.delete_topics(["again"])["again"].result()
    wait_for(lambda: "again" not in client.list_topics(timeout=5).topics)
    result = kfmt("replay", partition, "--bootstrap-server", cluster.address, "--state", state)
    assert result.code == 3
    assert "ends at offset 0, before 1 of the state file" in result.err


@pytest.mark.brokers
def test_a_topic_that_may_not_be_written_is_named(cluster: Live) -> None:
    create_topic(cluster, "forbidden")
    command = ("replay", ORDERS.parent, "--as", "forbidden", "--bootstrap-server", cluster.address)
    acl_options = ("--add", "--topic", "forbidden", "--allow-principal", "User:ANONYMOUS")
    cluster.command(ACLS, *acl_options, "--operation", "DescribeConfigs")
    result = kfmt(*command)
    assert result.code == 3
    assert result.err == (
        f"kfmt: {cluster.address}: forbidden: exists, but this user is not allowed to describe it\n"
    )
    cluster.command(ACLS, *acl_options, "--operation", "Describe")
    result = kfmt(*command)
    assert result.code == 3
    (line,) = result.err.splitlines()
    assert line.startswith(f"kfmt: {cluster.address}: forbidden-0: ")
    assert "Topic authorization failed" in line


@pytest.mark.brokers
def test_when_the_cluster_dies_another_run_goes_on_with_it(tmp_path: Path) -> None:
    data, state = tmp_path / "data", tmp_path / "state.json"
    data.mkdir()
    format_storage(VERSION, data, tmp_path)
    n = 40_000
    directory = build_partition(
        tmp_path / "dying-0", [{"value": f"{i}", "timestamp": i + 1} for i in range(n)]
    )
    producer_config = tmp_path / "client.properties"
    producer_config.write_text("message.timeout.ms=4000\nsasl.password=hunter2secret\n")
    with live(VERSION, data, tmp_path) as broker:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kfmt_cli", "replay", directory, "--state", state),
                *("--bootstrap-server", broker.address, "--rate", "5000"),
                *("--producer-config", producer_config),
            ],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: state.exists() and _next_offset(state, "dying") > 0)
        broker.kill()
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 3
    line = stderr.splitlines()[-1]
    assert line.startswith(f"kfmt: {broker.address}: dying")
    assert "; acknowledged before offset" in line
    assert "hunter2secret" not in stderr
    assert "Traceback" not in stderr
    with live(VERSION, data, tmp_path) as broker:
        replay(broker, directory, "--state", state)
        values = [int(message.value()) for message in consumed(broker, "dying")]
    assert values == list(range(n))


@pytest.mark.brokers
def test_the_rate_is_kept(cluster: Live) -> None:
    started = time.monotonic()
    replay(cluster, ORDERS.parent, "--as", "slow", "--rate", "500")
    assert time.monotonic() - started >= 2.5
