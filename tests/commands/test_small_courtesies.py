"""Small answers at the front door: aliases, environment, names of Python, damaged is not equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kfmt_cli
from kfmt_cli.commands.stat.command import iter_statistics_hints
from kfmt_cli.log.summary.statistics import LogStatistics
from tests.support.samples import ORDERS, kfmt
from tests.support.wrong_encoders import Mistakes, encode_batch, int32, plain_varint
from tools.kafka import SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"


@pytest.mark.parametrize("command", [("cat",), ("dump", "--records"), ("find", "--key", "~.")])
def test_n_is_the_limit(command: tuple[str, ...]) -> None:
    assert kfmt(*command, ORDERS, "-n", "3").out == kfmt(*command, ORDERS, "--limit", "3").out


def test_the_environment_has_the_version() -> None:
    named = kfmt("check", ORDERS.parent, "--kafka-version", "4.2")
    assert kfmt("check", ORDERS.parent, KFMT_KAFKA_VERSION="4.2").out == named.out
    assert "4.2" in named.out


def test_python_has_the_names_of_the_command_line() -> None:
    options: dict[str, Any] = {
        "from_offset": 7,
        "to_offset": 9,
        "from_time": "2000-01-01",
        "to_time": "2099-01-01",
    }
    readers: tuple[Any, ...] = (kfmt_cli.read_records, kfmt_cli.read_batches)
    for read in readers:
        assert list(read(ORDERS, **options).objects())
    with pytest.warns(DeprecationWarning, match="first_offset is now from_offset"):
        rows = kfmt_cli.read_records(ORDERS, first_offset=238)  # type: ignore[call-arg]
    assert len(list(rows.objects())) == 2
    assert {*kfmt_cli.__all__} <= {*dir(kfmt_cli)}
    assert "TYPE_CHECKING" not in dir(kfmt_cli)


@pytest.mark.parametrize(
    "mistakes",
    [
        Mistakes(record={"value_length": plain_varint}),
        Mistakes(batch={"records_count": lambda _: int32(2)}),
    ],
)
def test_damaged_records_are_not_equal(mistakes: Mistakes, tmp_path: Path) -> None:
    for name, data in (("a", encode_batch()), ("b", encode_batch(mistakes))):
        log = tmp_path / name / "orders-0" / "00000000000000000000.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(data)
    done = kfmt("diff", tmp_path / "a", tmp_path / "b", "--json")
    assert done.code == 1
    assert [row["relation"] for row in done.of("range")] == ["damaged"]
    assert done.codes


def test_converting_nothing_says_so(tmp_path: Path) -> None:
    done = kfmt("convert-v0-to-v2", ORDERS.parent, tmp_path / "out")
    assert "nothing to convert: every batch is magic 2" in done.out
    legacy = kfmt("convert-v0-to-v2", SAMPLES / "kafka-2.8.2/upgraded-0", tmp_path / "new")
    assert "nothing to convert" not in legacy.out


def test_dump_shows_logs_before_checkpoints() -> None:
    lines = [line for line in kfmt("dump", BROKER).out.splitlines() if " bytes" in line]
    names = [line.split()[0].rpartition("/")[2] for line in lines if "/" in line.split(" ")[0]]
    first_checkpoint = names.index("cleaner-offset-checkpoint")
    assert all(not name.endswith(".log") for name in names[first_checkpoint:])


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (BROKER / "ordrs-0", "ordrs-0: No such file or directory; did you mean orders-0"),
        (
            ORDERS.parent / "00000000000000000001.log",
            "offset 1 would be in 00000000000000000000.log",
        ),
        (
            ORDERS.parent / "00000000000000000300.index",
            "offset 300 would be in 00000000000000000240.index",
        ),
        (BROKER / "nothing-like-it/x", "nothing-like-it/x: No such file or directory\n"),
    ],
)
@pytest.mark.parametrize("command", ["dump", "verify-crc", "check"])
def test_a_missing_path_gets_the_nearest(command: str, path: Path, hint: str) -> None:
    done = kfmt(command, path)
    assert done.code == 3
    assert hint in done.err


def test_sql_has_a_view_of_each_topic() -> None:
    pytest.importorskip("duckdb")
    query = "select key_text, value_json->>'sku' as sku from orders where \"offset\" = 1"
    done = kfmt("sql", query, BROKER, "--format", "csv")
    assert done.out.splitlines() == ["key_text,sku", '"customer-1","ember"'], done.err
    named = kfmt("sql", 'select count(*) as n from "codec-gzip"', BROKER, "--format", "csv")
    assert int(named.out.splitlines()[1]) > 0
    assert kfmt("sql", "select 1 from ordrs", BROKER).code == 2


def test_sql_finds_fields_of_values_in_bytes_and_text() -> None:
    query = """select value->>'sku' as sku, value_json->>'sku' as same, key_text->>'x' as none,
        value->>'$.qty' as qty from orders where "offset" = 1"""
    expected = {"type": "row", "sku": "ember", "same": "ember", "none": None, "qty": "2"}
    for options in ((), ("--value-format", "json"), ("--topic", "ord*")):
        assert kfmt("sql", query, BROKER, *options, "--json").rows == [expected]


def test_sql_decodes_values() -> None:
    query = 'select value_json::varchar as v from orders where "offset" = 1'
    (row,) = kfmt("sql", query, BROKER, "--value-format", "hex", "--json").rows
    assert bytes.fromhex(json.loads(row["v"])).startswith(b'{"order_id"')
    done = kfmt("sql", query, BROKER, "--value-format", "avro")
    assert done.code == 2
    assert "--value-schema" in done.err


def test_sql_takes_both_orders() -> None:
    pytest.importorskip("duckdb")
    query = "select count(*) as n from records"
    assert kfmt("sql", ORDERS, query).out == kfmt("sql", query, ORDERS).out
    helped = kfmt("sql", ORDERS, stdin=b".help\n.topics\n")
    assert "kfmt sql" not in helped.err
    assert ".schema NAME" in helped.out + helped.err


def test_stat_asks_about_units_of_time_and_counts_maps() -> None:
    (hint,) = iter_statistics_hints([LogStatistics(max_timestamp=1_700_000_000)])
    assert hint == (
        "timestamps are in milliseconds; the newest is 1970-01-20 16:13:20.000: seconds? then "
        "2023-11-14 22:13:20"
    )
    nanoseconds = [*iter_statistics_hints([LogStatistics(max_timestamp=1_700_000_000 * 10**9)])]
    assert "nanoseconds? then 2023-11-14 22:13:20" in nanoseconds[0]
    assert not [*iter_statistics_hints([LogStatistics(max_timestamp=1_700_000_000_000)])]
    (maps,) = iter_statistics_hints([LogStatistics(segments=40_000)])
    assert "vm.max_map_count, 65 530 by default, must be above 80 000" in maps
