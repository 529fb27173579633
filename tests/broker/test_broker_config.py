"""--config: a broker's properties, read as Java reads them; their values never reach a terminal
raw."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker.test_cluster_state import encoded
from tests.broker.test_state import built
from tests.support.samples import ORDERS, Row, kfmt

BROKER_CONFIG = rb"""# The settings of \
broker.id=1
! another comment \u00
log.retention.ms = \u0035\u0030
log.retention.bytes:7
log.local.retention.ms 6
log.cleanup.policy=compact,\
    delete
other=caf\xe9 \xff\xfe
listeners=a:\
""".replace(b"\\xe9", b"\xe9").replace(b"\\xff\\xfe", b"\xff\xfe")


def settings_from_file(config: bytes, directory: Path) -> Row:
    """The settings that retention takes from a file, by name."""
    path = directory / "server.properties"
    path.write_bytes(config)
    result = kfmt("retention", ORDERS.parent, "--config", path, "--json")
    assert result.code == 0, result.err
    settings = result.of("retention")[0]["settings"]
    return {
        name: setting["value"] for name, setting in settings.items() if setting["source"] == "file"
    }


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    assert settings_from_file(BROKER_CONFIG, tmp_path) == {
        "cleanup.policy": "compact,delete",
        "retention.ms": 50,
        "retention.bytes": 7,
    }


def test_the_last_of_two_lines_wins_whatever_ends_them(tmp_path: Path) -> None:
    settings = settings_from_file(b"log.retention.ms=1\rlog.retention.ms=\t2\r\n", tmp_path)
    assert settings == {"retention.ms": 2}


def test_an_escape_that_stops_a_broker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"broker.id=1\nlog.dirs=C:\\users\n")
    result = kfmt("retention", ORDERS.parent, "--config", path)
    assert result.code == 2
    assert result.err.startswith(f"kfmt: {path} byte 12: incomplete \\u escape in ")


@pytest.mark.parametrize("command", ["retention", "compaction"])
def test_no_value_reaches_a_terminal_raw(command: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"log.cleanup.policy=\x1b]0;title\x07\n")
    result = kfmt(command, ORDERS.parent, "--config", path)
    assert r"\x1b]0;title\x07" in result.out
    assert not {"\x1b", "\x07"} & set(result.out + result.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("compaction", ORDERS.parent, "--cleanup-policy", "\x1b[31m"),
        ("retention", ORDERS.parent, "--\x1b[31m"),
        ("retention", ORDERS.parent, "--retention-ms", "\x1b[31m"),
        ("dump", ORDERS, "--offset", "\x1b[31m"),
        ("dump", ORDERS, "--color", "\x1b[31m"),
        ("hex", ORDERS, "--layout", "\x1b[31m"),
        ("find", ORDERS, "--key", "\x1b[31m"),
        ("explain", "\x1b[31m"),
        ("format", "\x1b[31m"),
        ("check", "\x1b[31m"),
        ("export", "\x1b[31m", "--to", "\x1b[31m"),
        ("salvage", "\x1b[31m", "\x1b[32m"),
        ("partition-of", "\x1b[31m", "--partitions", "\x1b[31m"),
        ("encode-varint", "\x1b[31m"),
        ("request-header", "\x1b[31m"),
        ("\x1b[31m",),
    ],
    ids=lambda arguments: arguments[0].strip("\x1b[m"),
)
def test_no_argument_reaches_a_terminal_raw(arguments: tuple[str | Path, ...]) -> None:
    result = kfmt(*arguments)
    assert "\x1b" not in result.out + result.err


# The order that kafka-configs.sh --describe --all shows, with Kafka 3.9.1 and 4.4.0.
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], 5),
        ([("BROKER", "", 4)], 4),
        ([("BROKER", "1", 3)], 3),
        ([("BROKER", "2", 3)], 5),
        ([("BROKER", "1", 3), ("BROKER", "", 4), ("BROKER", "2", 2)], 3),
        ([("TOPIC", "orders", 1), ("BROKER", "1", 3), ("BROKER", "", 4)], 1),
        ([("TOPIC", "other", 1), ("BROKER", "1", 3), ("BROKER", "", 4)], 3),
        ([("TOPIC", "1", 1), ("BROKER", "", 4)], 4),
    ],
)
def test_a_brokers_own_settings_come_before_the_cluster_wide(
    settings: list[tuple[str, str, int]], expected: int, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(ORDERS.parent, disk / "orders-0")
    (disk / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    records = [
        {
            "type": "record",
            "offset": i,
            "timestamp": 1,
            "value_encoding": "hex",
            "value": encoded(
                "ConfigRecord",
                0,
                {
                    "resource_type": {"TOPIC": 2, "BROKER": 4}[kind],
                    "resource_name": resource,
                    "name": "retention.ms" if kind == "TOPIC" else "log.retention.ms",
                    "value": str(value),
                },
            ),
        }
        for i, (kind, resource, value) in enumerate(settings)
    ]
    if records:
        built(disk / "__cluster_metadata-0", records)
    config = tmp_path / "server.properties"
    config.write_text("log.retention.ms=5\n")
    row, *_ = kfmt("retention", disk / "orders-0", "--config", config, "--json").of("retention")
    source = "metadata log" if expected != 5 else "file"
    assert row["settings"]["retention.ms"] == {"value": expected, "source": source}
