"""kfmt replay without a cluster; tests/interop/test_replay.py has one."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.broker.partitioners import compute_key_partitions, hash_to_partition, murmur2
from kfmt_cli.commands.replay.sources import find_sources
from kfmt_cli.commands.replay.state_file import ReplaySourceState, ReplayState, load_replay_state
from kfmt_cli.commands.replay.topic_plans import create_topic_plans
from kfmt_cli.disk.partitions import find_partitions
from kfmt_cli.errors import InputError, UsageError
from tests.support.samples import ORDERS, TXN, Done, kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
OPTIONS = {"as": None, "by_key": False}


def preview(*arguments: str | Path) -> Done:
    """The result of a dry run."""
    return kfmt("replay", *arguments, "--dry-run", "--json")


def test_a_dry_run_says_what_would_be_sent() -> None:
    result = preview(BROKER, "--topic", "orders", "--topic", "txn")
    assert result.code == 0, result.err
    orders, txn = result.of("replayed")
    assert (orders["topic"], orders["partition"], orders["records"]) == ("orders", 0, 1500)
    assert (orders["first_offset"], orders["last_offset"]) == (0, 1499)
    transactions = kfmt("txn", TXN.parent, "--json").of("transaction")
    n_uncommitted = sum(row["records"] for row in transactions if row["outcome"] != "committed")
    records = kfmt("cat", TXN.parent, "--json").out.splitlines()
    assert (txn["records"], txn["not_committed"]) == (len(records) - n_uncommitted, n_uncommitted)
    assert txn["first_offset"] == 6
    assert orders["dry_run"]
    assert txn["dry_run"]


def test_topics_of_the_cluster_itself_are_not_sent() -> None:
    topics = {row["topic"] for row in preview(BROKER).of("replayed")}
    assert {"orders", "txn", "empty"} <= topics
    assert not [topic for topic in topics if topic.startswith("__")]


def test_offsets_and_times_choose_records() -> None:
    (row,) = preview(ORDERS.parent, "--from-offset", "10", "--to-offset", "19").of("replayed")
    assert (row["records"], row["first_offset"], row["last_offset"]) == (10, 10, 19)
    (row,) = preview(ORDERS.parent, "--to-time", "0").of("replayed")
    assert (row["records"], row["first_offset"]) == (0, None)


def test_an_open_transaction_holds_back_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    lines = [
        {"value": "a", "producer_id": 7, "producer_epoch": 0, "transactional": True},
        {"value": "b", "producer_id": -1, "transactional": False},
    ]
    text = "\n".join(
        json.dumps(
            {
                "type": "batch",
                "base_offset": i,
                "producer_id": line["producer_id"],
                "producer_epoch": line.get("producer_epoch", -1),
                "base_sequence": 0 if line["transactional"] else -1,
                "attributes": {"transactional": line["transactional"]},
            }
        )
        + "\n"
        + json.dumps({"type": "record", "offset": i, "value": line["value"]})
        for i, line in enumerate(lines)
    )
    assert kfmt("build", "-", directory, stdin=text.encode()).code == 0
    (row,) = preview(directory).of("replayed")
    assert (row["records"], row["first_offset"], row["not_committed"]) == (1, 1, 1)


def test_damage_is_reported_and_the_rest_is_counted(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    shutil.copytree(ORDERS.parent, directory)
    log = directory / ORDERS.name
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    result = preview(directory)
    assert result.code == 1
    assert result.codes == ["crc-mismatch"]
    assert 1000 < result.of("replayed")[0]["records"] < 1500


def test_archives_are_read_like_directories(tmp_path: Path) -> None:
    archive = tmp_path / "disk.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        out.add(ORDERS.parent, "data/orders-0")
    (row,) = preview(archive).of("replayed")
    assert (row["topic"], row["records"]) == ("orders", 1500)
    (row,) = preview(ORDERS, "--as", "one").of("replayed")
    assert (row["target_topic"], row["last_offset"]) == ("one", 239)


def test_copies_of_a_partition_are_refused(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    result = preview(BROKER, tmp_path)
    assert result.code == 2
    assert "are copies of orders-0; give only one of them" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((ORDERS.parent, "--by-key", "--groups"), 2, "cannot be combined with --by-key"),
        ((BROKER, "--as", "one"), 2, "--as needs a single topic"),
        ((BROKER, "--topic", "none"), 1, "no topic 'none' in the given paths"),
        ((ORDERS.parent, "--as", "not/a/topic"), 2, "a topic name has"),
        ((BROKER / "nowhere",), 3, "No such file"),
        ((BROKER / "__consumer_offsets-1",), 1, "only internal topics found"),
    ],
)
def test_inputs_that_cannot_be_replayed_are_reported(
    arguments: tuple[Path | str, ...], code: int, message: str
) -> None:
    result = preview(*arguments)
    assert result.code == code, result.err
    assert message in result.err


def test_topics_are_created_as_the_newest_metadata_log_describes_them(tmp_path: Path) -> None:
    """The broker's own copy ends before the topic was created; the controller's has it."""
    metadata = BROKER / "__cluster_metadata-0"
    shutil.copytree(BROKER / "orders-0", tmp_path / "broker/orders-0")
    shutil.copytree(metadata, tmp_path / "controller" / metadata.name)
    (own_metadata := tmp_path / "broker" / metadata.name).mkdir()
    log = "00000000000000000000.log"
    (own_metadata / log).write_bytes((metadata / log).read_bytes()[:2000])
    directories = (str(tmp_path / "broker"), str(tmp_path / "controller"))
    errors: list[str] = []
    for paths in (directories[:1], directories):
        partitions = find_partitions(paths, errors.append, errors.append)
        plan = create_topic_plans(find_sources(partitions, (), None), partitions, errors.append)[
            "orders"
        ]
        assert plan.n_partitions == 1
        assert (plan.replication_factor == 1) is (paths == directories)
    assert errors == []


def test_a_damaged_snapshot_does_not_decide(tmp_path: Path) -> None:
    """The settings come from an older snapshot and the log; the damage is reported."""
    for name in ("__cluster_metadata-0", "compacted-0"):
        shutil.copytree(BROKER / name, tmp_path / name)
    newest = max((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    data = bytearray(newest.read_bytes())
    data[data.find(b"compact")] ^= 1
    newest.write_bytes(data)
    errors: list[str] = []
    partitions = find_partitions((str(tmp_path / "compacted-0"),), print, print)
    plan = create_topic_plans(find_sources(partitions, (), None), partitions, errors.append)[
        "compacted"
    ]
    assert plan.settings["cleanup.policy"] == "compact"
    assert errors == [f"{newest} byte 83: a batch fails its checksum"]
    result = kfmt("retention", tmp_path / "compacted-0")
    assert result.code == 3
    assert "cleanup.policy=compact (metadata log)" in result.out
    assert "a batch fails its checksum" in result.err


def test_a_topic_that_is_not_there_is_named_next_to_others() -> None:
    result = preview(BROKER, "--topic", "orders", "--topic", "ordres")
    assert result.code == 1
    assert "did you mean orders?" in result.err


def test_a_cluster_is_needed_except_for_a_dry_run() -> None:
    result = kfmt("replay", ORDERS.parent)
    assert result.code == 2
    assert "--bootstrap-server" in result.err


def test_an_unreachable_cluster_is_named_with_the_reason() -> None:
    pytest.importorskip("confluent_kafka")
    result = kfmt("replay", ORDERS.parent, "--bootstrap-server", "127.0.0.1:1")
    assert result.code == 3
    (line,) = result.err.splitlines()
    assert line.startswith("kfmt: 127.0.0.1:1: ")
    assert "Connection refused" in line


def test_settings_of_the_client_stay_secret(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    file = tmp_path / "client.properties"
    arguments = (
        "replay",
        ORDERS.parent,
        "--bootstrap-server",
        "127.0.0.1:1",
        "--producer-config",
        file,
    )
    secret = "hunter2secret"  # noqa: S105
    for text, message in (
        (f"sasl.password={secret}\nno.such.setting=1\n", "no.such.setting"),
        (f"sasl.password={secret}\nsecurity.protocol={secret}\n", "security.protocol"),
        (f"sasl.jaas.config={secret}\n", "JAAS"),
        (f"sasl.password={secret}\\u12\n", "malformed"),
        ("transactional.id=a\n", "transactional.id is set by kfmt replay"),
    ):
        file.write_text(text)
        result = kfmt(*arguments)
        assert result.code == 2, result.err
        assert message in result.err
        assert secret not in result.out + result.err


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40) | st.binary(min_size=1020, max_size=1030), max_size=20))
def test_partitions_of_many_keys_are_those_of_each(keys: list[bytes]) -> None:
    sizes = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(sizes) - sizes
    partitions = compute_key_partitions(b"".join(keys), starts, sizes, 12)
    assert partitions.tolist() == [hash_to_partition(murmur2(key), 12) for key in keys]


def test_a_state_file_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    state = load_replay_state(file, "cluster", OPTIONS)
    assert state == ReplayState(file, "cluster", OPTIONS)
    state.sources["orders-0"] = ReplaySourceState(5, 12, {3: 10})
    state.targets["orders"] = {0: 13}
    state.write_file()
    assert load_replay_state(file, "cluster", OPTIONS) == state
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_state_file_of_another_replay_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    load_replay_state(file, "cluster", OPTIONS).write_file()
    with pytest.raises(UsageError, match="into cluster cluster, not other"):
        load_replay_state(file, "other", OPTIONS)
    with pytest.raises(UsageError, match="with --by-key False, not True"):
        load_replay_state(file, "cluster", {**OPTIONS, "by_key": True})
    for text in ("", "{}", "[]", '{"version":1}', "x"):
        file.write_text(text)
        with pytest.raises(InputError, match="not a state file"):
            load_replay_state(file, "cluster", OPTIONS)
    file.write_text('{"version":2}')
    with pytest.raises(UsageError, match="only 1 is supported"):
        load_replay_state(file, "cluster", OPTIONS)
