"""The plan of `kfmt check`: carried out, nothing is left to do and nothing is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.sax.saxutils import unescape

import pytest

from kfmt_cli.disk.file_names import parse_broker_topic_partition
from tests.support.directory_plans import BrokenDirectories, carry_out, generate, kinds
from tests.support.samples import Row, kfmt
from tools.kafka import SAMPLES

SOURCE = SAMPLES / "kafka-3.9.1-broker1"
NAMES = {"victim": "codec-gzip", "bystander": "codec-zstd"}


def make_base(path: Path) -> None:
    """A log directory `one` with two partitions of the sample."""
    shutil.copytree(SOURCE / "__cluster_metadata-0", path / "one/__cluster_metadata-0")
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(SOURCE / name, path / "one")
    for topic in NAMES.values():
        shutil.copytree(SOURCE / f"{topic}-0", path / f"one/{topic}-0")
    (path / "one/.kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
    for name in ("recovery-point", "replication", "log-start"):
        lines = [f"{topic} 0 {0 if name == 'log-start' else 1200}" for topic in NAMES.values()]
        text = "\n".join(["0", str(len(lines)), *lines, ""])
        (path / f"one/{name}-offset-checkpoint").write_text(text)


def served(path: Path) -> dict[str, int]:
    """The number of offsets of each partition that the next start serves."""
    result = kfmt("check", "one", "--json", "--jobs", "1", cwd=path)
    [directory] = [row for row in result.of("log_directory") if row["file"] == "one"]
    counts: dict[str, int] = {}
    for row in result.of("broker_start"):
        topic, _ = parse_broker_topic_partition(row["file"].removeprefix("one/")) or ("", 0)
        if (
            topic in NAMES.values()
            and not row["file"].endswith("-stray")
            and row["after"] == directory["next_start"]
        ):
            is_served = directory["starts"] and row["starts"] and row["becomes"] is None
            counts[topic] = row["log_end_offset"] - row["log_start_offset"] if is_served else 0
    return counts


def _translate(path: Path, to_samples: bool) -> None:
    """Give the partitions the names that the changes use, or those of the sample's topics."""
    for name, topic in NAMES.items():
        old, new = (name, topic) if to_samples else (topic, name)
        for directory in sorted(path.glob(f"one/**/*{old}-0*")):
            if directory.is_dir():
                directory.rename(directory.with_name(directory.name.replace(old, new)))
        for file in path.glob("one/**/*-checkpoint"):
            if file.is_file() and old.encode() in (data := file.read_bytes()):
                file.write_bytes(data.replace(old.encode(), new.encode()))


def break_and_mend(broken: BrokenDirectories, path: Path) -> tuple[dict[str, int], list[Row]]:
    make_base(path)
    _translate(path, to_samples=False)
    broken.change(path)
    _translate(path, to_samples=True)
    steps = carry_out(path)
    return served(path), steps


NAMES_AND_IDS = [
    case
    for case in kinds()
    if not case.is_double
    and ("victim-0" in case.description or "metadata" in case.description)
    and "DIRECTORY" not in case.description
]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.long] if number % 9 else [])
        for number, case in enumerate(NAMES_AND_IDS)
    ],
    ids=lambda case: case.description,
)
def test_a_plan_that_is_carried_out_serves_everything(case: object, tmp_path: Path) -> None:
    assert served_after(case, tmp_path) == dict.fromkeys(NAMES.values(), 1200)


def _is_visible(broken: BrokenDirectories) -> bool:
    """Whether the start of each partition is in the output: not that of a future replica."""
    return "only future" not in broken.description


def served_after(case: object, path: Path) -> dict[str, int]:
    counts, _ = break_and_mend(BrokenDirectories((case,)), path)  # type: ignore[arg-type]
    return counts


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.long) for s in (2, 3))])
def test_plans_for_several_changes_serve_everything(seed: int, tmp_path: Path) -> None:
    failures = []
    n_cases = 4 if seed == 1 else 40
    candidates = (
        broken
        for broken in generate(seed, 10 * n_cases)
        if not broken.is_double and _is_visible(broken)
    )
    for number, broken in zip(range(n_cases), candidates, strict=False):
        path = tmp_path / str(number)
        counts, steps = break_and_mend(broken, path)
        is_known = not any("needs cluster.id" in step["command"] for step in steps)
        if is_known and counts != dict.fromkeys(NAMES.values(), 1200):
            failures.append((broken.description, counts, [step["command"] for step in steps]))
        shutil.rmtree(path)
    assert not failures


def codes(path: Path, *directories: str) -> dict[str, str]:
    """The code of each finding of severity error or warning, with its message."""
    rows = kfmt("check", *(directories or ("one",)), "--json", cwd=path).of("finding")
    return {row["code"]: row["message"] for row in rows if row["severity"] != "note"}


def test_partitions_in_other_places_are_found(tmp_path: Path) -> None:
    make_base(tmp_path)
    expected = "no directory for __consumer_offsets-1"
    assert codes(tmp_path)["partition-missing"].startswith(expected)
    (tmp_path / "one/codec-gzip-0").rename(tmp_path / "one/codec-gzip-0.bak")
    message = "its topic id shows that it is codec-gzip-0, with 1200 offsets"
    assert codes(tmp_path)["partition-misnamed"] == message
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "one/data")
    assert codes(tmp_path)["log-directory-nested"] == "one/data is a log directory in one"


def test_a_disk_of_another_cluster_is_found(tmp_path: Path) -> None:
    make_base(tmp_path)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    properties = tmp_path / "two/meta.properties"
    text = properties.read_text().replace("cluster.id=", "cluster.id=X")
    properties.write_text(text)
    assert "cluster.id is X" in codes(tmp_path, "one", "two")["cluster-id-differs"]


def test_no_command_has_the_marker_deleted_where_there_is_none(tmp_path: Path) -> None:
    """A batch that was cut is lost after a crash, whatever is done: salvage does not have it."""
    make_base(tmp_path)
    (tmp_path / "one/.kafka_cleanshutdown").unlink()
    log = tmp_path / "one/codec-gzip-0/00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-30])
    result = kfmt("check", "one", cwd=tmp_path)
    assert "rm " not in result.out
    assert "salvage" not in result.out
    assert "clean shutdown" not in result.out
    assert "after a clean shutdown" in kfmt("check", "one", "--both", cwd=tmp_path).out
    [verdict] = [line for line in result.out.splitlines() if line.startswith("after that")]
    assert "codec-gzip-0 1100–1199" in verdict


def test_no_loss_is_ruled_out_in_a_log_that_the_broker_does_not_load(tmp_path: Path) -> None:
    """The log is also cut: what its start loses is known once the file before it is mended."""
    make_base(tmp_path)
    (tmp_path / "one/.kafka_cleanshutdown").unlink()
    log = tmp_path / "one/codec-gzip-0/00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-30])
    epochs = tmp_path / "one/codec-gzip-0/leader-epoch-checkpoint"
    epochs.write_bytes(bytes(8))

    def verdict() -> str:
        lines = kfmt("check", "one", cwd=tmp_path).out.splitlines()
        return next(line for line in lines if line.startswith("after that"))

    assert "not known before the steps are done: what codec-gzip-0 loses" in verdict()
    epochs.unlink()
    assert "codec-gzip-0 1100–1199" in verdict()


def test_each_output_has_the_same_plan(tmp_path: Path) -> None:
    make_base(tmp_path)
    (tmp_path / "one/codec-gzip-0").rename(tmp_path / "one/codec-gzip-0.bak")
    (tmp_path / "one/codec-zstd-0/partition.metadata").unlink()
    steps = kfmt("check", "one", "--json", cwd=tmp_path).of("next")
    assert len(steps) == 2
    text = kfmt("check", "one", cwd=tmp_path).out
    assert all(step["command"] in text for step in steps)
    github = kfmt("check", "one", "--format", "github", cwd=tmp_path).out.replace("%25", "%")
    assert all(step["command"].replace("\n", "%0A") in github for step in steps)
    junit = unescape(kfmt("check", "one", "--format", "junit", cwd=tmp_path).out)
    sarif = json.loads(kfmt("check", "one", "--format", "sarif", cwd=tmp_path).out)
    [invocation] = sarif["runs"][0]["invocations"]
    notifications = [
        notification["message"]["text"] for notification in invocation["toolExecutionNotifications"]
    ]
    for step in steps:
        assert step["command"] in junit
        assert any(step["command"] in notification for notification in notifications)


def test_a_version_that_does_not_know_the_levels_is_replaced_not_the_metadata_log() -> None:
    """After a failed downgrade, another copy of the metadata log has the same levels."""
    directory = SAMPLES / "kafka-4.4.0/d1"
    result = kfmt("check", directory, "--kafka-version", "4.2", "--json")
    assert not any(row["starts"] for row in result.of("log_directory"))
    [step] = result.of("next")
    assert step["command"] == "# use Kafka 4.4 for this disk"
    assert step["price"].startswith("metadata.version has level 33")
    assert not kfmt("check", directory, "--kafka-version", "4.4", "--json").of("next")


@pytest.mark.parametrize(
    "name", ["cluster_metadata", "cluster_metadata-0", "__cluster_metadata-0.bak"]
)
def test_the_metadata_log_gets_its_name_back(name: str, tmp_path: Path) -> None:
    make_base(tmp_path)
    (tmp_path / "one/__cluster_metadata-0").rename(tmp_path / "one" / name)
    (step,) = kfmt("check", "one", "--json", cwd=tmp_path).of("next")
    assert step["command"] == f"mv one/{name} one/__cluster_metadata-0"


def test_what_is_gone_before_the_start_is_in_the_verdict(tmp_path: Path) -> None:
    make_base(tmp_path)
    verdict = kfmt("check", "one", cwd=tmp_path).out.splitlines()[-1]
    assert verdict == "after that  nothing more is lost; 21 partitions without a directory"


def test_a_deleted_copy_of_a_log_brings_nothing_back(tmp_path: Path) -> None:
    make_base(tmp_path)
    log = tmp_path / "one/codec-gzip-0" / f"{0:020}.log"
    shutil.copy(log, f"{log}.deleted")
    assert not kfmt("check", "one", "--json", cwd=tmp_path).of("next")
    log.unlink()
    (step,) = kfmt("check", "one", "--json", cwd=tmp_path).of("next")
    assert step["command"] == "kfmt salvage --deleted one/codec-gzip-0 DST"


def test_a_partition_marked_delete_is_not_called_served(tmp_path: Path) -> None:
    make_base(tmp_path)
    partition = tmp_path / "one/codec-gzip-0"
    partition.rename(f"{partition}.{'0' * 32}-delete")
    out = kfmt("check", "one", cwd=tmp_path).out
    assert "after that  1 partition not served: codec-gzip-0; 21 partitions without" in out


def test_a_directory_id_of_another_broker_does_not_change_the_node_id(tmp_path: Path) -> None:
    """All partitions in it belong to this node: the directory.id or the disk is wrong."""
    make_base(tmp_path)
    (tmp_path / "two").mkdir()
    meta = (tmp_path / "one/meta.properties").read_text()
    (line,) = [line for line in meta.splitlines() if line.startswith("directory.id=")]
    other = meta.replace(line, "directory.id=ZfQ6xeSyN1trd9UDpkAsXw")
    (tmp_path / "two/meta.properties").write_text(other)
    (tmp_path / "one/codec-gzip-0").rename(tmp_path / "two/codec-gzip-0")
    result = kfmt("check", "one", "two", "--json", cwd=tmp_path)
    assert "owner-contradicted" in result.codes
    assert not result.of("next")
