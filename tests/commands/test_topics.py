"""--topic has one meaning: which topics are read; the decoder is --as-topic, a new name --as."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kfmt_cli
from tests.support.samples import ORDERS, kfmt
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
OFFSETS = BROKER / "__consumer_offsets-1"


def topics_in(*arguments: str | Path) -> set[str]:
    done = kfmt(*arguments, "--json")
    assert done.code == 0, done.err
    return {row["topic"] for row in done.rows if row.get("topic")}


@pytest.mark.parametrize(
    "command", ["dump", "verify-crc", "stat", "retention", "index-check", "check"]
)
def test_a_filter_selects_topics(command: str) -> None:
    assert topics_in(command, BROKER, "--topic", "orders") == {"orders"}
    assert topics_in(command, BROKER, "--topic", "ord*", "--topic", "t?n") == {"orders", "txn"}


@pytest.mark.parametrize(
    "command", ["dump", "cat", "verify-crc", "find", "txn", "compaction", "check", "replicas"]
)
def test_a_topic_that_is_not_there_gets_the_nearest(command: str) -> None:
    options = ["--offset", "1"] if command == "find" else []
    done = kfmt(command, BROKER, "--topic", "ordrs", *options)
    assert done.code == 1
    assert "no topic 'ordrs' in the given paths; did you mean orders?" in done.err


def test_state_shows_topics_by_patterns() -> None:
    assert {
        row["topic"]
        for row in kfmt("state", BROKER, "--topic", "ord*", "--json").of("committed_offset")
    } == {"orders"}


def test_commands_that_write_take_the_same_filter(tmp_path: Path) -> None:
    done = kfmt("export", BROKER, "--to", tmp_path / "a", "--topic", "ord*")
    assert done.code == 0, done.err
    former = kfmt("export", BROKER, "--to", tmp_path / "b", "--topics", "orders")
    assert "--topics is now --topic; the former spelling works in this release only" in former.err
    assert sorted(path.name for path in (tmp_path / "a").rglob("*.parquet")) == sorted(
        path.name for path in (tmp_path / "b").rglob("*.parquet")
    )
    replayed = kfmt("replay", BROKER, "--topic", "ord*", "--dry-run")
    assert replayed.code == 0, replayed.err


def test_the_decoder_has_an_option_of_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "copy"
    shutil.copytree(OFFSETS, directory)
    new = kfmt("dump", directory, "--records", "--json", "--as-topic", "__consumer_offsets")
    former = kfmt("dump", directory, "--records", "--json", "--topic", "__consumer_offsets")
    assert (new.code, new.err) == (former.code, "")
    assert '"decoded_key"' in new.out
    assert former.out == new.out
    assert former.err == (
        "kfmt: --topic is now --as-topic; the former spelling works in this release only\n"
    )
    log = directory / "00000000000000000000.log"
    assert (
        kfmt("hex", log, "--as-topic", "__consumer_offsets").out
        == (former := kfmt("hex", log, "--topic", "__consumer_offsets")).out
    )
    assert "--topic is now --as-topic" in former.err
    state = kfmt("state", directory, "--as-topic", "__consumer_offsets", "--json")
    assert state.of("committed_offset")
    assert kfmt("state", directory, "--of-topic", "__consumer_offsets", "--json").out == state.out


def test_build_takes_a_new_name(tmp_path: Path) -> None:
    lines = kfmt("dump", ORDERS, "--records", "--json").out.encode()
    new = kfmt("build", "-", tmp_path / "a", "--as", "copy", stdin=lines)
    former = kfmt("build", "-", tmp_path / "b", "--topic", "copy", stdin=lines)
    assert (new.code, former.code) == (0, 0)
    assert "--topic is now --as;" in former.err
    for directory in ("a", "b"):
        assert (tmp_path / directory / "copy-0").is_dir()


def test_python_warns_about_former_spellings() -> None:
    with pytest.warns(DeprecationWarning, match="topic is now as_topic"):
        kfmt_cli.read_records(OFFSETS, topic="__consumer_offsets")
    with pytest.warns(DeprecationWarning, match="--of-topic is now --as-topic"):
        kfmt_cli.state(OFFSETS, of_topic="__consumer_offsets")
    rows = kfmt_cli.state(BROKER, topic="orders").rows
    assert rows


def test_replicas_shows_topics_and_predicts_from_all_of_the_metadata() -> None:
    brokers = (BROKER, BROKER.with_name("kafka-3.9.1-broker2"))
    every = kfmt("replicas", *brokers, "--json").rows
    some = kfmt("replicas", *brokers, "--topic", "bulk-*", "--json").rows
    assert {row["topic"].partition("-")[0] for row in some if row.get("topic")} == {"bulk"}
    assert [row for row in every if row["type"] == "replicas" and row["topic"] == "bulk-none"] == [
        row for row in some if row["type"] == "replicas" and row["topic"] == "bulk-none"
    ]
    assert [row["type"] for row in every if "topic" not in row] == [
        row["type"] for row in some if "topic" not in row
    ]


def test_salvage_copies_topics_and_the_files_of_the_log_directory(tmp_path: Path) -> None:
    done = kfmt("salvage", BROKER, tmp_path / "a", "--topic", "ord*")
    assert done.code == 0, done.err
    directories = [path.name for path in (tmp_path / "a").iterdir() if path.is_dir()]
    assert directories == ["orders-0"]
    assert (tmp_path / "a/meta.properties").exists()
    done = kfmt("salvage", BROKER, tmp_path / "b", "--topic", "ord*", "--as", "restored")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["restored-0"]
    done = kfmt("salvage", BROKER, tmp_path / "c", "--topic", "ordrs")
    assert done.code == 1
    assert "did you mean orders?" in done.err
    assert not (tmp_path / "c").exists()


def test_sql_reads_topics() -> None:
    query = "select topic, count(*) as n from records group by 1 order by 1"
    rows = kfmt("sql", query, BROKER, "--topic", "ord*", "--topic", "t?n", "--json").rows
    assert [row["topic"] for row in rows] == ["orders", "txn"]
    done = kfmt("sql", query, BROKER, "--topic", "ordrs")
    assert done.code == 1
    assert "did you mean orders?" in done.err


def test_report_is_about_topics(tmp_path: Path) -> None:
    data = tmp_path / "r.json"
    done = kfmt("report", BROKER, "--to", tmp_path / "r.html", "--data", data, "--topic", "orders")
    assert done.code == 0, done.err
    rows = json.loads(data.read_text())
    assert {row["topic"] for row in rows if row.get("topic")} == {"orders"}
    assert any(row["type"] == "committed_offset" for row in rows)
