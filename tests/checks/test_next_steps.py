"""The suggested next commands run as they are printed, and none does harm."""

from __future__ import annotations

import shlex
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.support.broken_partitions import ORDERS
from tests.support.matrix import matrix
from tests.support.samples import TXN, kfmt
from tools.kafka import ROOT, SAMPLES

DAMAGES = matrix()


def test_each_command_of_what_to_do_next_runs_as_it_is_printed(tmp_path: Path) -> None:
    commands = set()
    for i, damage in enumerate(DAMAGES):
        directory = tmp_path / str(i)
        directory.mkdir()
        damage.make(directory)
        for row in kfmt("check", ".", "--json", cwd=directory).of("next"):
            arguments = shlex.split(row["command"])
            commands.add(" ".join(arguments[:2]))
            if arguments[0] == "kfmt":
                result = kfmt(*arguments[1:], cwd=directory)
                assert result.code in (0, 1), f"{damage}: {row['command']}: {result.err}"
            else:
                subprocess.run(row["command"], check=True, cwd=directory, shell=True)  # noqa: S602
    assert {"kfmt salvage", "kfmt rebuild-index"} <= commands
    assert any(command.startswith("mv ") for command in commands)


def test_nothing_is_offered_that_the_start_mends_or_that_makes_it_worse(tmp_path: Path) -> None:
    for i, (tail, index) in enumerate([(b"\1" * 10, None), (b"", b"\0" * 16)]):
        directory = tmp_path / str(i) / "orders-0"
        shutil.copytree(ORDERS, directory)
        log = directory / "00000000000000001440.log"
        log.write_bytes(log.read_bytes() + tail)
        if index is not None:  # and damage in the log
            (directory / "00000000000000000240.index").write_bytes(index)
            data = bytearray((directory / "00000000000000000240.log").read_bytes())
            data[13500] ^= 1
            (directory / "00000000000000000240.log").write_bytes(bytes(data))
        result = kfmt("check", directory, "--json")
        assert not [row for row in result.of("next") if "rebuild-index" in row["command"]]
        assert bool([row for row in result.of("next") if "salvage" in row["command"]]) is bool(
            index
        )


def test_an_index_is_rebuilt_with_all_files_only_for_a_transaction_index(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "damaged_segments/index-not-at-batch-0", tmp_path / "seek-0")
    (tmp_path / "txn-0").mkdir()
    for file in TXN.parent.glob(f"{635:020}.*"):
        shutil.copy(file, tmp_path / "txn-0")
    transaction_index = tmp_path / "txn-0" / f"{635:020}.txnindex"
    entry = bytearray(transaction_index.read_bytes())
    entry[10] ^= 1  # in the first offset of the transaction
    transaction_index.write_bytes(entry)
    steps = kfmt("check", "seek-0", "txn-0", "--json", cwd=tmp_path).of("next")
    rebuild_steps = [row for row in steps if "rebuild-index" in row["command"]]
    assert [(row["command"], row["price"]) for row in rebuild_steps] == [
        (
            "kfmt rebuild-index --in-place --all-files txn-0",
            "reads 10 932 bytes; stop the broker first",
        ),
        ("kfmt rebuild-index --in-place seek-0", "reads 30 887 bytes; stop the broker first"),
    ]


def test_a_missing_meta_properties_is_written_from_the_other_directory(tmp_path: Path) -> None:
    samples = SAMPLES / "kafka-3.9.1-broker1"
    first, second = tmp_path / "one", tmp_path / "two"
    shutil.copytree(samples / "__cluster_metadata-0", first / "__cluster_metadata-0")
    properties = (samples / "meta.properties").read_text()
    (first / "meta.properties").write_text(
        properties.replace("Id4qCpYkZMw8zR87hsZyqQ", "Jd4qCpYkZMw8zR87hsZyqQ")
    )
    shutil.copytree(samples / "orders-0", second / "orders-0")
    (second / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    result = kfmt("check", "one", "two", "--json", cwd=tmp_path)
    assert {row["starts"] for row in result.of("log_directory")} == {False}
    step = result.of("next")[0]
    subprocess.run(step["command"], check=True, cwd=tmp_path, shell=True)  # noqa: S602
    assert "directory.id=Id4qCpYkZMw8zR87hsZyqQ\n" in (second / "meta.properties").read_text()
    result = kfmt("check", "one", "two", "--json", cwd=tmp_path)
    assert {row["starts"] for row in result.of("log_directory")} == {True}
    assert {start["becomes"] for start in result.of("broker_start")} == {None}


def test_recovery_is_forced_where_the_broker_would_start(tmp_path: Path) -> None:
    for name in ("disk", "disk-2"):
        shutil.copytree(ORDERS, tmp_path / name / "orders-0")
        with (tmp_path / name / "orders-0/00000000000000001440.log").open("ab") as log:
            log.write(struct.pack(">qi", 1500, -1) + bytes(49))
        (tmp_path / name / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')

    def recovery_commands() -> dict[str, str]:
        rows = kfmt("check", "disk", "disk-2", "--json", cwd=tmp_path).of("next")
        return {row["file"]: row["command"] for row in rows if row["command"].startswith("rm ")}

    commands = {name: f"rm {name}/.kafka_cleanshutdown" for name in ("disk", "disk-2")}
    assert recovery_commands() == commands
    for name in ("no partition", "meta.properties"):  # no broker starts with these
        path = tmp_path / "disk-2" / name
        path.mkdir()
        assert recovery_commands() == {"disk": commands["disk"]}
        path.rmdir()


@pytest.mark.parametrize("is_after_clean_shutdown", [False, True])
def test_advice_is_for_the_start_that_is_next(
    is_after_clean_shutdown: bool, tmp_path: Path
) -> None:
    for name in ("truncated-0", "zero-tail-0"):
        shutil.copytree(ROOT / "damaged_segments" / name, tmp_path / name)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    if is_after_clean_shutdown:
        (tmp_path / ".kafka_cleanshutdown").write_text("")
    output = " ".join(kfmt("check", tmp_path).out.split())
    assert "If .kafka_cleanshutdown exists" not in output
    assert output.count("elete .kafka_cleanshutdown before") == 2 * is_after_clean_shutdown
    alone = " ".join(kfmt("check", tmp_path, "--both").out.split())
    assert alone.count("If .kafka_cleanshutdown exists") == 2
