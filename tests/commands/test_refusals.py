"""What commands refuse, instead of doing something that was not requested."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kfmt_cli
from kfmt_cli.errors import UsageError
from tests.support.samples import ORDERS, kfmt
from tools.kafka import SAMPLES

PARTITION = ORDERS.parent


@pytest.mark.parametrize(
    "arguments", [("merge", "-", "--to"), ("salvage", "-"), ("convert-v0-to-v2", "-")]
)
def test_standard_input_is_no_directory(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = kfmt(*arguments, tmp_path / "to", stdin=ORDERS.read_bytes())
    assert (result.code, result.out) == (2, "")
    assert result.err == "kfmt: -: this command cannot read standard input\n"


def test_partitions_of_one_name_are_not_rebuilt_into_each_other(tmp_path: Path) -> None:
    for disk in ("one", "two"):
        shutil.copytree(PARTITION, tmp_path / disk / "orders-0")
    paths = [tmp_path / disk / "orders-0" for disk in ("one", "two")]
    result = kfmt("rebuild-index", *paths, tmp_path / "to")
    assert (result.code, result.out) == (2, "")
    assert f"{paths[1]}: is written to orders-0, and so is {paths[0]}" in result.err
    assert not (tmp_path / "to").exists()
    assert kfmt("rebuild-index", tmp_path / "one", tmp_path / "two", tmp_path / "to").code == 0
    assert (tmp_path / "to/two/orders-0" / ORDERS.with_suffix(".index").name).exists()


@pytest.mark.parametrize("command", ["retention", "compaction"])
def test_cleanup_policies_are_those_of_kafka(command: str) -> None:
    result = kfmt(command, PARTITION, "--cleanup-policy", "compact,remove")
    assert (result.code, result.out) == (2, "")
    assert "no cleanup policy named 'remove'; choose from compact, delete" in result.err
    function = getattr(kfmt_cli, command)
    with pytest.raises(UsageError, match="no cleanup policy named 'foo'"):
        function(PARTITION, cleanup_policy="foo")
    assert function(PARTITION, cleanup_policy="compact").rows


def test_a_table_that_is_not_of_logs_is_written() -> None:
    result = kfmt("dump", PARTITION, "--format", "csv", "--table", "offset_index_entry")
    entries = kfmt("dump", PARTITION, "--json").of("offset_index_entry")
    assert len(result.out.splitlines()) == 1 + len(entries) > 60
    result = kfmt(
        "dump", PARTITION, "--format", "csv", "--table", "offset_index_entry", "--records"
    )
    assert (result.code, result.out) == (2, "")


def test_damaged_checkpoints_are_not_copied_but_reported(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1/orders-0", tmp_path / "disk/orders-0")
    (tmp_path / "disk/orders-0/leader-epoch-checkpoint").write_text("garbage\n")
    (tmp_path / "disk/log-start-offset-checkpoint").write_text("0\n1\norders 0 x\n")
    result = kfmt("salvage", tmp_path / "disk", tmp_path / "to")
    assert result.code == 1
    assert result.err.count("not copied: ") == 2
    assert ", 2 damaged" in result.out
    assert "no damage" not in result.out
    rows = kfmt("salvage", tmp_path / "disk", tmp_path / "again", "--json")
    assert {row["file"] for row in rows.of("finding")} == {
        str(tmp_path / "disk/orders-0/leader-epoch-checkpoint"),
        str(tmp_path / "disk/log-start-offset-checkpoint"),
    }
    (summary,) = rows.of("summary")
    assert summary["errors"] == len(rows.of("finding"))


WRITING = [
    ("export", "disk", "--to"),
    ("rebuild-index", "disk"),
    ("rebuild-index", "disk/orders-0"),
    ("rebuild-index", f"disk/orders-0/{ORDERS.name}"),
    ("salvage", "disk"),
    ("merge", "disk", "--to"),
    ("convert-v0-to-v2", "disk"),
    ("report", "disk", "--to"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    shutil.copytree(PARTITION, tmp_path / "disk/orders-0")
    for index in (tmp_path / "disk/orders-0").glob("*index"):
        index.unlink()
    return tmp_path / "disk"


def all_paths(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_nothing_is_written_into_an_input(arguments: tuple[str, ...], disk: Path) -> None:
    """No broker starts with a directory in its log directory that is no partition."""
    original_paths = all_paths(disk)
    result = kfmt(*arguments, "disk/orders-0/new", cwd=disk.parent)
    assert (result.code, result.out) == (2, "")
    assert "is inside" in result.err
    assert all_paths(disk) == original_paths


@pytest.mark.parametrize("arguments", [*WRITING, ("build", "-")], ids=" ".join)
def test_an_empty_path_is_refused(arguments: tuple[str, ...], disk: Path) -> None:
    """A shell variable that is not set is empty."""
    original_paths = all_paths(disk.parent)
    result = kfmt(*arguments, "", cwd=disk.parent)
    assert (result.code, result.out) == (2, "")
    assert "a path cannot be empty" in result.err
    assert all_paths(disk.parent) == original_paths


def test_indexes_next_to_their_logs_are_asked_for(disk: Path) -> None:
    original_paths = all_paths(disk)
    for arguments in (("disk/orders-0", "disk/orders-0"), ("disk", "disk")):
        result = kfmt("rebuild-index", *arguments, cwd=disk.parent)
        assert (result.code, result.out) == (2, "")
        assert "contains the logs; use --in-place" in result.err
    assert all_paths(disk) == original_paths


def test_old_segments_do_not_stay_next_to_new_ones(tmp_path: Path) -> None:
    rows = kfmt("dump", PARTITION, "--records", "--json").out.encode()
    output = tmp_path / "orders-0"
    assert kfmt("build", "-", output, "--segment-bytes", "20000", stdin=rows).code == 0
    original_files = {path: path.read_bytes() for path in all_paths(output)}
    result = kfmt("build", "-", output, "--segment-bytes", "100000", "--force", stdin=rows)
    assert result.code == 2
    assert "belongs to another segment, which --force does not replace" in result.err
    assert {path: path.read_bytes() for path in all_paths(output)} == original_files
    result = kfmt("build", "-", output, "--segment-bytes", "20000", "--force", stdin=rows)
    assert result.code == 0
    assert {path: path.read_bytes() for path in all_paths(output)} == original_files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cat", PARTITION, "--json", "-f", "%o"), "--json cannot be combined with --form"),
        (("find", PARTITION, "--offset", "5", "--timestamp", "3"), "cannot be combined"),
        (("find", PARTITION), "give --offset, --timestamp or a record filter"),
        (("hex", ORDERS, "--position", "-1"), "-1 is not in the range"),
        (("retention", PARTITION, "--retention-ms", "-5"), "-5 is not in the range"),
    ],
    ids=lambda item: item[0] if isinstance(item, tuple) else "",
)
def test_options_that_contradict_each_other(
    arguments: tuple[str | Path, ...], message: str
) -> None:
    result = kfmt(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_the_table_of_records_has_records() -> None:
    result = kfmt("dump", PARTITION, "--format", "csv", "--table", "record")
    assert result.out == kfmt("dump", PARTITION, "--format", "csv", "--records").out.replace(
        "\r", ""
    )
    assert len(result.out.splitlines()) > 1500
