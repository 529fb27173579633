"""kfmt replay into a real cluster: a consumer reads what the disks have, and groups go on."""

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
    """A replay that must succeed."""
    done = kfmt("replay", *arguments, "--bootstrap-server", cluster.address, "--json")
    assert done.code == 0, done.err
    return done


def content(message: Any) -> tuple[Any, ...]:
    """All of a record except its offset."""
    headers = tuple(message.headers() or ())
    return message.timestamp()[1], message.key(), message.value(), headers


def built(folder: Path, rows: list[Row]) -> Path:
    """A partition with these records."""
    text = "\n".join(map(json.dumps, rows)).encode()
    done = kfmt("build", "-", folder, stdin=text)
    assert done.code == 0, done.err
    return folder


def make_topic(cluster: Live, name: str, partitions: int = 1, **settings: str) -> None:
    """A topic, before anything is replayed into it."""
    client = admin.AdminClient({"bootstrap.servers": cluster.address})
    config = {key.replace("_", "."): value for key, value in settings.items()}
    new = admin.NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
    client.create_topics([new])[name].result()
    wait_for(lambda: name in client.list_topics(timeout=5).topics)


def put(cluster: Live, topic: str, n: int) -> None:
    """Records that others have written."""
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
    (row,) = replay(cluster, built(tmp_path / "small-0", rows)).of("replayed")
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
        found = [content(message) for message in consumed(cluster, name.rpartition("-")[0])]
        assert found == expected, name


@pytest.mark.brokers
def test_only_committed_records_are_sent(cluster: Live) -> None:
    (row,) = replay(cluster, TXN.parent, "--as", "committed").of("replayed")
    messages = consumed(cluster, "committed")
    assert len(messages) == row["records"]
    (served,) = consume_all([TXN.parent], recover=False, isolation="read_committed")
    # The old broker stops at the open transaction, whose time would have run out.
    assert [content(message)[1:3] for message in messages[: len(served)]] == [
        (record.key, record.value) for record in served
    ]
    transactions = kfmt("txn", TXN.parent, "--json").of("transaction")
    lost = sum(each["records"] for each in transactions if each["outcome"] != "committed")
    assert row["not_committed"] == lost


@pytest.mark.brokers
def test_topics_are_made_as_the_metadata_log_describes_them(cluster: Live) -> None:
    done = replay(cluster, BROKER, "--topic", "empty", "--topic", "replicated")
    assert "empty: created with 3 partitions, replication factor 1\n" in done.err
    assert "replication factor 1 instead of 2: the cluster has too few brokers" in done.err
    said = {
        (row["resource"], row["name"]): row["value"]
        for row in kfmt("state", BROKER / "__cluster_metadata-0", "--json").of("config")
    }
    told = cluster.command(
        CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "replicated"
    )
    for (topic, name), value in said.items():
        if topic == "replicated":
            assert f"{name}={value} " in told


@pytest.mark.brokers
def test_groups_go_on_where_they_were(cluster: Live) -> None:
    (stood,) = [
        row["offset"]
        for row in kfmt("state", BROKER, "--topic", "orders", "--json").of("committed_offset")
        if row["group"] == "billing"
    ]
    make_topic(cluster, "moved")
    put(cluster, "moved", 3)
    done = replay(cluster, BROKER, "--topic", "orders", "--as", "moved", "--groups")
    (row,) = done.of("replayed_group")
    assert (row["offset"], row["target_offset"], row["committed"]) == (stood, stood + 3, True)
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
        (next_,) = [
            each
            for each in kfmt("dump", ORDERS.parent, "--records", "--json").of("record")
            if each["offset"] == stood
        ]
        assert message.error() is None
        assert (message.value().decode(), message.timestamp()[1]) == (
            next_["value"],
            next_["timestamp"],
        )
        # Now it has a member, and its offsets stay its own.
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
    make_topic(cluster, "shop", 2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.address, "transactional.id": "shop"}
    )
    producer.init_transactions(30)
    for n, is_committed in ((10, True), (5, False), (10, True)):
        producer.begin_transaction()
        for i in range(n):
            producer.produce("shop", f"{n} {i} {is_committed}", partition=0)
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    places = {"at-start": 0, "in-aborted": 13, "after-aborted": 20, "at-end": 28}
    for group, offset in places.items():
        commit(cluster, group, [("shop", 0, offset), ("shop", 1, 0)])
    disk = tmp_path / "disk"
    shutil.copytree(cluster.scratch / "data", disk)

    make_topic(cluster, "mall", 2)
    put(cluster, "mall", 3)
    what = (disk, "--topic", "shop", "--as", "mall")
    state = tmp_path / "state.json"
    done = replay(cluster, *what, "--groups", "--state", state)
    rows = [row for row in done.of("replayed_group") if row["group"] in places]
    assert all(row["committed"] for row in rows)
    assert len(rows) == 2 * len(places)
    given = [message for message in consumed(cluster, "shop") if b"True" in message.value()]
    values = {message.offset(): message.value() for message in consumed(cluster, "mall")}
    for row in rows:
        target = row["target_offset"]
        assert committed(cluster, row["group"], "mall", row["partition"]) == target
        if row["partition"] == 1:
            assert target == 0
            continue
        rest = [message.value() for message in given if message.offset() >= row["offset"]]
        assert [value for offset, value in sorted(values.items()) if offset >= target] == rest
    # What an earlier run has sent has no place any more, but the end has.
    other = tmp_path / "other.json"
    replay(cluster, *what, "--state", other)
    again = kfmt(
        *("replay", *what, "--groups", "--state", other, "--json"),
        *("--bootstrap-server", cluster.address),
    )
    assert again.code == 3
    assert "group after-aborted: offset 20 of shop-0 not committed" in again.err
    found = {
        row["group"]: row["target_offset"]
        for row in again.of("replayed_group")
        if row["partition"] == 0
    }
    assert found["at-end"] == len(consumed(cluster, "mall"))
    assert found["after-aborted"] is None


def commit(cluster: Live, group: str, places: list[tuple[str, int, int]]) -> None:
    """Offsets that a client commits."""
    settings = {"bootstrap.servers": cluster.address, "group.id": group}
    consumer = confluent_kafka.Consumer(settings)
    offsets = [confluent_kafka.TopicPartition(*place) for place in places]

    def is_done() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if "oordinator" not in str(error):  # the groups' topic has just been made
                raise
            return False
        return True

    wait_for(is_done)
    consumer.close()


def committed(cluster: Live, group: str, topic: str, partition: int) -> int:
    """The offset from which a client of a group continues."""
    settings = {"bootstrap.servers": cluster.address, "group.id": group}
    consumer = confluent_kafka.Consumer(settings)
    (place,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], timeout=30)
    consumer.close()
    return int(place.offset)


@pytest.mark.brokers
def test_keys_choose_the_partition_that_java_producers_choose(cluster: Live) -> None:
    make_topic(cluster, "keyed", 5)
    (row,) = replay(cluster, ORDERS.parent, "--as", "keyed", "--by-key").of("replayed")
    assert row["target_partition"] is None
    found = [message for number in range(5) for message in consumed(cluster, "keyed", number)]
    assert len(found) == row["records"] == 1500
    for message in found:
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
    make_topic(cluster, topic, 3)
    put(cluster, topic, 10)
    state = tmp_path / "state.json"
    folder = built(tmp_path / f"{topic}-0", rows)
    words: tuple[str | Path, ...] = ("--state", state, *options)
    killed, before = 0, 0
    for rate in ("8000", "10000", "12000"):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kfmt_cli", "replay", folder, *words),
                *("--rate", rate, "--bootstrap-server", cluster.address),
            ],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
        )

        def acknowledged() -> bool:
            return state.exists() and _next_offset(state, topic) > before  # noqa: B023

        try:
            wait_for(acknowledged)
            time.sleep(0.4)  # so that some have arrived that the file does not know
        finally:
            process.kill()
            killed += process.wait() == -signal.SIGKILL
        before = _next_offset(state, topic)
    assert killed == 3
    (row,) = replay(cluster, folder, *words).of("replayed")
    assert row["already_there"] > 0
    assert row["resumed_at"] == before
    partitions = [consumed(cluster, topic, number) for number in range(3)]
    own = [
        int(message.value())
        for messages in partitions
        for message in messages
        if not message.value().startswith(b"other")
    ]
    assert len(own) == n
    assert set(own) == set(range(n))
    for messages in partitions:
        values = [int(message.value()) for message in messages if message.key() is not None]
        assert values == sorted(values)


def _next_offset(state: Path, topic: str) -> int:
    sources = json.loads(state.read_bytes())["sources"]
    return int(sources.get(f"{topic}-0", {}).get("next_offset", 0))


@pytest.mark.brokers
def test_what_is_refused_is_named_and_nothing_is_sent_twice(cluster: Live, tmp_path: Path) -> None:
    rows: list[Row] = [{"value": f"{i}" * (1 if i != 50 else 4000)} for i in range(100)]
    folder = built(tmp_path / "narrow-0", rows)
    make_topic(cluster, "narrow", max_message_bytes="2000")
    state = tmp_path / "state.json"
    to = ("--bootstrap-server", cluster.address, "--state", state)
    done = kfmt("replay", folder, *to)
    assert done.code == 3
    (line,) = done.err.splitlines()
    assert "narrow-0: source offset 50: a record of 8 000 bytes: " in line
    assert "too large" in line
    CONFIG = ("--entity-type", "topics", "--entity-name", "narrow")  # noqa: N806
    cluster.command(CONFIGS, "--alter", *CONFIG, "--add-config", "max.message.bytes=100000")
    assert kfmt("replay", folder, *to).code == 0
    values = [message.value().decode() for message in consumed(cluster, "narrow")]
    assert values == [row["value"] for row in rows]


@pytest.mark.brokers
def test_too_few_partitions_and_another_topic_are_refused(cluster: Live, tmp_path: Path) -> None:
    make_topic(cluster, "few")
    folder = built(tmp_path / "few-2", [{"value": "a"}])
    done = kfmt("replay", folder, "--bootstrap-server", cluster.address)
    assert done.code == 3
    assert "few: has 1 partition, so partition 2 cannot be kept" in done.err
    first = built(tmp_path / "again-0", [{"value": "a"}])
    state = tmp_path / "state.json"
    replay(cluster, first, "--state", state)
    client = admin.AdminClient({"bootstrap.servers": cluster.address})
    client.delete_topics(["again"])["again"].result()
    wait_for(lambda: "again" not in client.list_topics(timeout=5).topics)
    done = kfmt("replay", first, "--bootstrap-server", cluster.address, "--state", state)
    assert done.code == 3
    assert "ends at offset 0, before 1 of the state file" in done.err


@pytest.mark.brokers
def test_a_topic_that_may_not_be_written_is_named(cluster: Live) -> None:
    make_topic(cluster, "forbidden")
    to = ("replay", ORDERS.parent, "--as", "forbidden", "--bootstrap-server", cluster.address)
    who = ("--add", "--topic", "forbidden", "--allow-principal", "User:ANONYMOUS")
    cluster.command(ACLS, *who, "--operation", "DescribeConfigs")
    done = kfmt(*to)
    assert done.code == 3
    assert done.err == (
        f"kfmt: {cluster.address}: forbidden: exists, but this user is not allowed to describe it\n"
    )
    cluster.command(ACLS, *who, "--operation", "Describe")
    done = kfmt(*to)
    assert done.code == 3
    (line,) = done.err.splitlines()
    assert line.startswith(f"kfmt: {cluster.address}: forbidden-0: ")
    assert "Topic authorization failed" in line


@pytest.mark.brokers
def test_when_the_cluster_dies_another_run_goes_on_with_it(tmp_path: Path) -> None:
    data, state = tmp_path / "data", tmp_path / "state.json"
    data.mkdir()
    format_storage(VERSION, data, tmp_path)
    n = 40_000
    folder = built(tmp_path / "dying-0", [{"value": f"{i}", "timestamp": i + 1} for i in range(n)])
    patience = tmp_path / "client.properties"
    patience.write_text("message.timeout.ms=4000\nsasl.password=hunter2secret\n")
    with live(VERSION, data, tmp_path) as broker:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kfmt_cli", "replay", folder, "--state", state),
                *("--bootstrap-server", broker.address, "--rate", "5000"),
                *("--producer-config", patience),
            ],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: state.exists() and _next_offset(state, "dying") > 0)
        broker.kill()
        _, said = process.communicate(timeout=120)
    assert process.returncode == 3
    line = said.splitlines()[-1]
    assert line.startswith(f"kfmt: {broker.address}: dying")
    assert "; acknowledged before offset" in line
    assert "hunter2secret" not in said
    assert "Traceback" not in said
    with live(VERSION, data, tmp_path) as broker:
        replay(broker, folder, "--state", state)
        values = [int(message.value()) for message in consumed(broker, "dying")]
    assert values == list(range(n))


@pytest.mark.brokers
def test_the_rate_is_kept(cluster: Live) -> None:
    began = time.monotonic()
    replay(cluster, ORDERS.parent, "--as", "slow", "--rate", "500")
    assert time.monotonic() - began >= 2.5
