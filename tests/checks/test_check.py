"""check: each damage is found at its location, and healthy directories have no findings."""

from __future__ import annotations

import json
import os
import re
import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kfmt_cli
from kfmt_cli.commands.check import command
from kfmt_cli.core.throttle import READ_THROTTLE
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings.codes import finding_code_by_name
from tests.support.broken_partitions import ORDERS, sample
from tests.support.matrix import Damage, matrix, partition
from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

# Codes of files that change or cannot be read, and of what kfmt decodes or stores.
# For codes of entire brokers, see test_owners.py.
NOT_IN_THE_MATRIX = {
    *("file-vanished", "file-unreadable", "directory-unreadable", "file-shrank", "file-grew"),
    *("records-limit", "payload-malformed", "notes-crc-mismatch", "notes-malformed"),
    "file-access-denied",  # tests/checks/test_file_access.py
    "time-index-timestamp-not-largest",
    "changed-while-read",  # tests/checks/test_live_directories.py
    "producers-unknown",  # reported by rebuild-index
    "metadata-load-fails",  # tests/broker/test_metadata_loading
    "coordinator-load-fails",  # tests/broker/test_coordinator_loading
    "transaction-unfinished",  # tests/commands/test_coordinator_markers
    "committed-offset-out-of-range",  # tests/broker/test_offset_ranges.py
    *("owner-contradicted", "replica-missing", "replica-moving"),
    # tests/checks/test_plan.py
    *("cluster-id-differs", "log-directory-nested", "partition-misnamed", "partition-missing"),
}
DAMAGES = matrix()


# The copy of a live broker lacks the indexes of its active segments, which are large.
HEALTHY = sorted(
    path for path in SAMPLES.iterdir() if path.is_dir() and not path.name.endswith("-live")
)


@pytest.mark.parametrize("directory", HEALTHY, ids=lambda item: item.name)
def test_nothing_is_wrong_with_healthy_directories(directory: Path) -> None:
    result = kfmt("check", directory, "--json")
    assert result.code == 0
    findings = [finding for finding in result.of("finding") if finding["severity"] != "note"]
    # The samples do not have all partitions of their brokers.
    assert {finding["code"] for finding in findings} <= {"partition-missing"}
    assert all(
        start["starts"] and not start["cut"] and not start["lost_offsets"]
        for start in result.of("broker_start")
    )


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda item: f"{item.code}: {item.description}")
def test_each_damage_is_found(damage: Damage, tmp_path: Path) -> None:
    damage.make(tmp_path)
    result = kfmt("check", tmp_path, "--json", *damage.options)
    findings = [finding for finding in result.of("finding") if finding["code"] == damage.code]
    assert findings, {finding["code"] for finding in result.of("finding")}
    assert all(row["file"] for row in findings)
    errors = [finding for finding in result.of("finding") if finding["severity"] == "error"]
    assert result.code == (1 if errors else 0)
    strict = kfmt("check", tmp_path, "--json", "--fail-on", "warning", *damage.options)
    assert strict.code == (
        0 if all(finding["severity"] == "note" for finding in result.of("finding")) else 1
    )


def test_the_matrix_has_every_kind_of_finding() -> None:
    assert {damage.code for damage in DAMAGES} == set(finding_code_by_name()) - NOT_IN_THE_MATRIX


def write_damaged_directory(directory: Path, *codes: str) -> None:
    """A log directory with several damaged partitions and an undamaged one."""
    for code in codes:
        damages = [damage for damage in DAMAGES if damage.code == code]
        damage = next(
            (damage for damage in damages if damage.description == "in a closed segment"),
            damages[0],
        )
        damage.make(directory / code)
        shutil.move(next(iter((directory / code).iterdir())), directory / f"{code}-0")
        (directory / code).rmdir()
    partition(directory, sample(ORDERS))


def test_the_worst_partition_comes_first(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "index-sparse", "crc-mismatch", "producer-sequence-gap")
    rows = kfmt("check", tmp_path, "--json").of("partition")
    names = [Path(row["file"]).name for row in rows]
    assert names[0] == "crc-mismatch-0"
    assert names[-1] == "orders-0"


def test_only_and_ignore(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch")
    result = kfmt("check", tmp_path, "--json", "--ignore", "crc-mismatch")
    assert "crc-mismatch" not in {finding["code"] for finding in result.of("finding")}
    result = kfmt("check", tmp_path, "--json", "--only", "index-missing")
    assert result.of("finding") == []
    assert result.code == 0
    assert kfmt("check", tmp_path, "--only", "no-such").code == 2
    output = kfmt("check", tmp_path, "--ignore", "crc-mismatch").out
    assert "hidden by --only or --ignore, but included in the start prediction" in output


def test_starts_after_a_crash_and_after_a_clean_shutdown(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch")
    starts = {
        start["after"]: start
        for start in kfmt("check", tmp_path, "--json").of("broker_start")
        if start["file"] == str(tmp_path / "crc-mismatch-0")
    }
    crash, clean = starts["crash"], starts["clean-shutdown"]
    directory = crash["file"]
    assert crash["starts"]
    assert clean["starts"]
    assert crash["log_end_offset"] == 340
    assert crash["lost_offsets"] == [[340, 1499]]
    assert crash["cut"] == [{"file": f"{directory}/{240:020}.log", "size": 13357}]
    later_logs = [f"{directory}/{base:020}.log" for base in range(480, 1500, 240)]
    assert [item for item in crash["deleted"] if item.endswith(".log")] == later_logs
    assert clean["log_end_offset"] == 1500
    assert clean["lost_offsets"] == clean["deleted"] == clean["cut"] == []
    assert clean["unreachable_offsets"] == [[340, 359]]


def test_a_partition_is_named_as_it_is_on_the_disk(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch")
    result = kfmt("check", tmp_path / "crc-mismatch-0", "--json")
    assert {start["file"] for start in result.of("broker_start")} == {
        str(tmp_path / "crc-mismatch-0")
    }
    # The recovery point of the parent log directory applies.
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\ncrc-mismatch 0 1500\n")
    result = kfmt("check", tmp_path / "crc-mismatch-0", "--json")
    assert [start["log_end_offset"] for start in result.of("broker_start")] == [1500, 1500]


def test_a_file_that_keeps_the_broker_down(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path)
    (tmp_path / "replication-offset-checkpoint").write_bytes(b"1\n0\n")
    starts = kfmt("check", tmp_path, "--json").of("broker_start")
    failing = [start for start in starts if not start["starts"]]
    assert {row["file"] for row in failing} == {str(tmp_path / "replication-offset-checkpoint")}
    assert all(row["log_end_offset"] is None and "version 1" in row["reason"] for row in failing)
    table = kfmt("check", tmp_path)
    assert "the broker does not start" in table.out
    assert table.code == 1


def test_junit(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch")
    root = ET.fromstring(  # noqa: S314 (our own)
        kfmt("check", tmp_path, "--format", "junit").out
    )
    assert root.tag == "testsuites"
    suites = {Path(element.attrib["name"]).name: element for element in root}
    assert set(suites) == {"crc-mismatch-0", "orders-0", "plan"}
    assert "kfmt salvage" in suites["plan"].findtext("testcase/system-out", "")
    for suite in suites.values():
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases) > 0
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert all({"name", "classname"} <= set(case.attrib) for case in cases)
        assert all(Path(case.attrib["file"]).exists() for case in cases if "file" in case.attrib)
    failures = suites["crc-mismatch-0"].findall("testcase/failure")
    assert [failure.attrib["type"] for failure in failures] == ["crc-mismatch"]


def test_sarif(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch", "producer-sequence-gap")
    log = json.loads(kfmt("check", tmp_path, "--format", "sarif").out)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert set(run) == {"tool", "results", "originalUriBaseIds", "invocations"}
    (invocation,) = run["invocations"]
    (step,) = invocation["toolExecutionNotifications"]
    assert step["message"]["text"].startswith("plan, step 1: kfmt salvage ")
    rules = {item["id"]: item for item in run["tool"]["driver"]["rules"]}
    assert {item["ruleId"] for item in run["results"]} == set(rules)
    assert {"crc-mismatch", "producer-sequence-gap"} <= set(rules)
    for result in run["results"]:
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        physical_location = location["physicalLocation"]
        assert Path(physical_location["artifactLocation"]["uri"].removeprefix("file://")).exists()
        assert physical_location["region"]["startLine"] == 1
        assert physical_location["region"].get("byteOffset", 0) >= 0
    assert json.loads(kfmt("check", HEALTHY[0], "--format", "sarif").out)["runs"]


def test_annotations_of_github(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch", "producer-sequence-gap")
    lines = kfmt("check", tmp_path, "--format", "github").out.splitlines()
    pattern = re.compile(r"::(error|warning|notice) file=([^:,]+),line=1,title=[a-z-]+::.+")
    assert lines.pop().startswith("kfmt: ")
    assert lines.pop().startswith("::notice title=plan%2C step 1::kfmt salvage ")
    assert lines
    matches = [pattern.fullmatch(line) for line in lines]
    assert all(match is not None and Path(match[2]).exists() for match in matches)
    assert any(line.startswith(f"::error file={tmp_path}/crc-mismatch-0/") for line in lines)


def test_a_slow_check_finds_the_same(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch")
    unthrottled = kfmt("check", tmp_path, "--json")
    assert kfmt("check", tmp_path, "--json", "--throttle", "50").out == unthrottled.out
    assert READ_THROTTLE.max_bytes_per_second is None  # the limit applied to that run only


def test_one_file(tmp_path: Path) -> None:
    write_damaged_directory(tmp_path, "crc-mismatch")
    log = tmp_path / "crc-mismatch-0" / f"{240:020}.log"
    result = kfmt("check", log, "--json")
    assert "crc-mismatch" in {finding["code"] for finding in result.of("finding")}
    assert result.code == 1
    assert result.of("broker_start") == []
    assert kfmt("check", tmp_path / "nothing").code == 3
    (tmp_path / "notes.txt").write_text("no log")
    result = kfmt("check", tmp_path / "notes.txt")
    assert (result.code, "not a Kafka log" in result.err) == (3, True)
    snapshot = tmp_path / "orders-0" / f"{1500:020}.snapshot"
    assert kfmt("check", snapshot).code == 0
    snapshot.write_bytes(b"x")
    assert "snapshot-malformed" in {
        finding["code"] for finding in kfmt("check", snapshot, "--json").of("finding")
    }


def lost_offset_messages(directory: Path) -> list[str]:
    """The messages of check about offsets that are already lost."""
    rows = kfmt("check", directory, "--json").of("finding")
    return [row["message"] for row in rows if row["code"] == "offsets-lost"]


def test_lost_offsets_are_reported_with_their_evidence(tmp_path: Path) -> None:
    broker = tmp_path / "broker"
    for name in ("__cluster_metadata-0", "orders-0"):
        shutil.copytree(SAMPLES / "kafka-3.9.1-broker1" / name, broker / name)
    log, last = (broker / f"orders-0/{base:020}.log" for base in (240, 1440))
    content = log.read_bytes()
    assert lost_offset_messages(broker) == []
    log.write_bytes(b"")
    evidence = (
        f"{log.name} has 0 bytes, and the next segment starts at 480; the topic is not compacted"
    )
    assert lost_offset_messages(broker) == [f"offsets 240–479 are already missing: {evidence}"]
    log.unlink()
    evidence = f"{240:020}.index exists, but its log does not"
    assert lost_offset_messages(broker) == [f"offsets 240–479 are already missing: {evidence}"]
    log.write_bytes(content)
    last.write_bytes(bytes(last.stat().st_size))
    evidence = "log end offset 1440, but 00000000000000001500.snapshot records 1500"
    assert lost_offset_messages(broker) == [f"offsets 1440–1499 are already missing: {evidence}"]


@pytest.mark.parametrize("suffix", ["delete", "stray"])
def test_a_marked_directory_is_not_the_one_in_the_checkpoints(suffix: str, tmp_path: Path) -> None:
    """Another partition may have its name: checkpoint entries for it do not apply here."""
    names = ("orders-0", f"orders-0.{'0a' * 16}-{suffix}")
    directory, marked = (Path(shutil.copytree(ORDERS, tmp_path / name)) for name in names)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 1500\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")

    def codes_and_paths() -> list[tuple[str, str]]:
        rows = kfmt("check", tmp_path, "--json", "--notes").of("finding")
        pairs = ((row["code"], row["file"].removeprefix(f"{tmp_path}/")) for row in rows)
        return [pair for pair in pairs if "segment" not in pair[0]]

    assert codes_and_paths() == []
    for file in marked.glob("*1440*"):
        file.unlink()
    (marked / f"{1500:020}.snapshot").unlink()
    assert codes_and_paths() == []
    for file in directory.glob("*1[24]*"):
        file.unlink()
    (directory / f"{1500:020}.snapshot").unlink()
    assert codes_and_paths() == [("offsets-lost", "orders-0")]


def test_a_partition_is_checked_from_inside_and_by_a_link(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", tmp_path / "data")
    directory = tmp_path / "data" / "orders-0"
    (tmp_path / "link").symlink_to(directory)
    for path, cwd in ((".", directory), ("../orders-0", directory), (tmp_path / "link", tmp_path)):
        result = kfmt("check", path, "--json", cwd=cwd)
        assert (result.code, result.err) == (0, "")
        (row,) = result.of("partition")
        assert (row["topic"], row["partition"]) == ("orders", 0)
        assert {start["starts"] for start in result.of("broker_start")} == {True}


def test_deleted_records_are_no_contradiction(tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    (tmp_path / "orders-0/leader-epoch-checkpoint").write_text("0\n1\n0 300\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    result = kfmt("check", tmp_path, "--json")
    assert "leader-epoch-contradicted" not in result.codes
    assert {start["log_start_offset"] for start in result.of("broker_start")} == {300}
    stderr = kfmt("stat", tmp_path / "orders-0").err
    assert "consumers cannot read offsets 0–299: log start offset 300" in stderr


def test_the_metadata_log_begins_at_its_oldest_snapshot(tmp_path: Path) -> None:
    metadata = tmp_path / "__cluster_metadata-0"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker2/__cluster_metadata-0", metadata)
    # A broker drops the epochs below the log start offset, and keeps the segment that contains it.
    (metadata / "leader-epoch-checkpoint").write_text("0\n1\n1 288\n")
    assert "deleted-records-back" not in kfmt("check", metadata, "--json").codes
    for snapshot in metadata.glob("*.checkpoint"):
        snapshot.unlink()
    assert "deleted-records-back" in kfmt("check", metadata, "--json").codes


def test_a_bootstrap_checkpoint_is_no_snapshot_of_the_metadata_log(tmp_path: Path) -> None:
    broker = tmp_path / "broker"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker2", broker)
    before = kfmt("check", broker)
    shutil.copy(broker / "bootstrap.checkpoint", broker / "__cluster_metadata-0")
    assert kfmt("check", broker).out == before.out


@pytest.mark.parametrize(
    "name", ["meta.properties", "recovery-point-offset-checkpoint", "orders-0/partition.metadata"]
)
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(name: str, tmp_path: Path) -> None:
    samples = SAMPLES / "kafka-3.9.1-broker1"
    for partition_name in ("__cluster_metadata-0", "orders-0"):
        shutil.copytree(samples / partition_name, tmp_path / partition_name)
    shutil.copy(samples / "meta.properties", tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert kfmt("check", tmp_path, "--json").of("summary")


@pytest.mark.parametrize("command", ["dump", "cat", "stat", "find", "export"])
def test_deleted_records_are_said_to_be_deleted(command: str, tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "disk/orders-0")
    (tmp_path / "disk/log-start-offset-checkpoint").write_text("0\n1\norders 0 300\n")
    options = {"find": ["--offset", "700"], "export": ["--to", str(tmp_path / "out")]}
    result = kfmt(command, tmp_path / "disk/orders-0", *options.get(command, []))
    assert result.code == 0, result.err
    assert "consumers cannot read offsets 0–299: log start offset 300" in result.err


def test_a_tree_is_walked_once_and_each_log_of_it_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_scans: Counter[str] = Counter()
    n_opens: Counter[str] = Counter()
    scandir, open_ = os.scandir, os.open

    def counted_scandir(path: str) -> Any:
        n_scans[path] += 1
        return scandir(path)

    def counted_open(path: str, *args: Any, **options: Any) -> int:
        n_opens[str(path)] += 1
        return open_(path, *args, **options)

    monkeypatch.setattr(os, "scandir", counted_scandir)
    monkeypatch.setattr(os, "open", counted_open)
    broker = SAMPLES / "kafka-3.9.1-broker1"
    result = kfmt_cli.check(broker, jobs=1)
    logs = {name: n for name, n in n_opens.items() if name.endswith(".log")}
    rows = {row["file"]: row for row in result.of("partition")}
    assert len(logs) == sum(int(str(row["segments"])) for row in rows.values())
    # A start is followed file by file where something is suspicious; metadata, what coordinators
    # load and groups' offsets are replayed.
    noted = {Path(name).name for name, row in rows.items() if row["notes"]}
    noted |= {path.name for path in broker.glob("__*-*")}
    unnoted = {name: n for name, n in logs.items() if Path(name).parent.name not in noted}
    assert len(unnoted) >= 10
    assert {name for name, n in unnoted.items() if n > 1} == set()
    directories = {path for path in broker.iterdir() if path.is_dir() and path.name not in noted}
    assert {n_scans[str(directory)] for directory in directories} == {1}


def test_a_log_that_grows_while_it_is_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders-0" / f"{0:020}.log"
    file.parent.mkdir()
    file.write_bytes((ORDERS / file.name).read_bytes()[:-10])
    codes = [row["code"] for row in kfmt_cli.check(file.parent, jobs=1).of("finding")]
    assert "batch-truncated" in codes
    measured_paths: list[str] = []

    def growing_file_size(log: InputFile) -> int:
        measured_paths.append(log.path)
        return Path(log.path).stat().st_size + 10 * (len(measured_paths) > 1)

    monkeypatch.setattr(command, "file_size", growing_file_size)
    codes = [row["code"] for row in kfmt_cli.check(file.parent, jobs=1).of("finding")]
    assert "file-grew" in codes
    assert "batch-truncated" not in codes


def test_findings_about_a_directory_are_limited_as_those_about_a_file(tmp_path: Path) -> None:
    for i in range(0, 10, 2):
        (tmp_path / "t-0" / f"{i:020}.log").parent.mkdir(exist_ok=True)
        (tmp_path / "t-0" / f"{i:020}.log").write_bytes(b"")
    limited = kfmt(
        "check", tmp_path / "t-0", "--max-findings", "2", "--only", "log-empty", "--json"
    )
    assert len(limited.of("finding")) == 2


def test_a_path_means_the_same_however_it_is_written(tmp_path: Path) -> None:
    """With redundant slashes, and from inside the directory."""
    broker = tmp_path / "disk"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", broker)
    (broker / "orders-0/partition.metadata").write_text(
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )

    def codes(path: str, cwd: Path) -> list[str]:
        result = kfmt("check", path, "--json", cwd=cwd)
        assert result.code == 1, path
        return sorted(row["code"] for row in result.of("finding"))

    broker_codes, partition_codes = codes("disk", tmp_path), codes("disk/orders-0", tmp_path)
    assert "partition-set-aside" in partition_codes
    for path in ("disk/orders-0/", "disk//orders-0", "disk/orders-0//", "./disk/orders-0"):
        assert codes(path, tmp_path) == partition_codes, path
    for path in ("disk/", ".//disk//"):
        assert codes(path, tmp_path) == broker_codes, path
    assert codes(".", broker / "orders-0") == partition_codes
    assert codes("..", broker / "orders-0") == broker_codes


def test_a_directory_without_kafkas_files_is_not_healthy(tmp_path: Path) -> None:
    (tmp_path / "foo.txt").write_text("foo")
    result = kfmt("check", tmp_path)
    assert result.code == 3
    assert "no log segments in or under this directory" in result.err


def test_directories_of_two_clusters_are_no_broker() -> None:
    """The start fails before it sets a partition of one of them aside."""
    result = kfmt("check", SAMPLES / "kafka-3.9.1-broker1", SAMPLES / "kafka-2.8.2", "--json")
    errors = [row["code"] for row in result.of("finding") if row["severity"] == "error"]
    assert (result.code, errors) == (1, ["cluster-id-differs"])
    assert not any(row["starts"] for row in result.of("log_directory"))


@pytest.mark.parametrize("paths", [(), (".",), ("./",)])
def test_the_current_directory_is_checked_by_relative_paths(
    paths: tuple[str, ...], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "damaged_segments", tmp_path / "broker")
    (tmp_path / "broker/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (tmp_path / "broker/recovery-point-offset-checkpoint").write_text("0\n1\ngone 0 1\n")
    for options in ((), ("--json",), ("--format", "github"), ("--format", "junit")):
        from_parent = kfmt("check", "broker", *options, cwd=tmp_path)
        from_inside = kfmt("check", *paths, *options, cwd=tmp_path / "broker")
        assert str(tmp_path) not in from_inside.out + from_inside.err
        assert (from_inside.code, len(from_inside.out.splitlines())) == (
            1,
            len(from_parent.out.splitlines()),
        )
    names = [
        set(kfmt("check", *arguments, "--json", cwd=cwd).codes)
        for arguments, cwd in ((paths, tmp_path / "broker"), (("broker",), tmp_path))
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "meta.properties",
        ".kafka_cleanshutdown",
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
    ],
)
def test_a_zeroed_file_is_one_line(name: str, tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    shutil.copy(ORDERS.parent / "meta.properties", tmp_path)
    (tmp_path / name).write_bytes(bytes(448))
    result = kfmt("check", tmp_path, "--json")
    findings = [row for row in result.of("finding") if row["file"] == str(tmp_path / name)]
    malformed = [row for row in findings if row["code"].endswith("-malformed")]
    assert len(malformed) == 1
    for options in ((), ("--notes",), ("--format", "github"), ("--json",)):
        out = kfmt("check", tmp_path, *options).out
        assert "x00" not in out
        assert "u0000" not in out
        assert "\0" not in out
    if name.endswith("checkpoint"):
        message = "448 zero bytes instead of a version, as after a power loss"
        assert malformed[0]["message"] == message


def test_a_relative_path_is_that_of_the_current_directory(tmp_path: Path) -> None:
    """In a process that changes its directory, as programs that use the library may."""
    for topic in ("a", "b"):
        shutil.copytree(ORDERS, tmp_path / f"{topic}-0")
        for task in ("check", "verify-crc"):
            rows = kfmt(task, ".", "--json", cwd=tmp_path / f"{topic}-0").rows
            assert {row["topic"] for row in rows if "topic" in row} == {topic}
