"""Streams over partitions that move, and over offsets that are deleted before they are read."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_stream import LOGS, METADATA, offsets
from tests.support.moving import MovingPartition, batch_bytes
from tests.support.segments import positions
from tests.support.sleeping import while_asleep
from tests.support.spark_rows import make_unlistable

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.split_reader import UnreadableInputError
from kfmt_cli.spark.input_partition import KfmtInputPartition
from kfmt_cli.spark.partition_reader import read_input_partition
from kfmt_cli.spark.source_options import StreamOptions, parse_request
from kfmt_cli.spark.streaming import follower as following
from kfmt_cli.spark.streaming import stream_listing
from kfmt_cli.spark.streaming.follower import DataLossError, StreamFollower
from kfmt_cli.spark.streaming.segment_ends import TriggerBudget
from kfmt_cli.spark.streaming.stream import KfmtStreamReader
from kfmt_cli.spark.worker import DriverEnvironment

ID = METADATA.read_text().rpartition(": ")[2].strip()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_PAUSES_SECONDS", (0.0, 0.0))


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two directories, and a partition in the first one."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for disk in paths:
        disk.mkdir()
    (paths[0] / "orders-0").mkdir()
    shutil.copy(METADATA, paths[0] / "orders-0")
    for log in LOGS[:2]:
        shutil.copy(log, paths[0] / "orders-0")
    return paths


def follower(disks: list[Path], *, fails: bool = True, **options: str) -> StreamFollower:
    return StreamFollower(replace(parse_request(options), paths=tuple(map(str, disks))), fails)


def test_the_key_is_the_topic_id_and_partition(disks: list[Path]) -> None:
    source = follower(disks)
    assert list(source.latest_positions({})) == [f"orders-0@{ID}"]
    (disks[0] / "orders-0/partition.metadata").unlink()
    assert list(source.latest_positions({})) == ["orders-0"]
    shutil.copytree(disks[0] / "orders-0", disks[1] / "backup")
    assert sorted(source.latest_positions({})) == [str(disks[1] / "backup"), "orders-0"]


@pytest.mark.parametrize("has_id", [True, False])
@pytest.mark.parametrize("is_moved", [True, False])
def test_checkpoints_with_paths_are_understood(
    has_id: bool, is_moved: bool, disks: list[Path]
) -> None:
    directory = disks[0] / "orders-0"
    position = positions(LOGS[1].read_bytes())[3]
    old = {str(directory): {"offset": 300, "segment": 240, "byte": position}}
    if not has_id:
        (directory / "partition.metadata").unlink()
    if is_moved:
        directory.rename(disks[1] / "orders-0")
    source = follower(disks)
    end = source.latest_positions(old)
    assert list(end) == [f"orders-0@{ID}" if has_id else "orders-0"]
    assert offsets(source, old, end) == list(range(300, 480))
    assert offsets(source, {str(directory): {**old[str(directory)], "offset": 0}}, old) == list(
        range(300)
    )


def test_a_topic_id_that_comes_or_goes_changes_nothing(disks: list[Path]) -> None:
    metadata = disks[0] / "orders-0/partition.metadata"
    metadata.unlink()
    source = follower(disks)
    start = source.latest_positions({})
    for log in LOGS[2:4]:
        if metadata.exists():
            metadata.unlink()
        else:
            shutil.copy(METADATA, metadata)
        shutil.copy(log, disks[0] / "orders-0")
        end = source.latest_positions(start)
        assert end.keys() != start.keys()
        assert len(offsets(source, start, end)) == 240
        start = end


def test_a_partition_on_two_disks_is_read_once(disks: list[Path]) -> None:
    """A move under way: the copy that goes further is read."""
    source = follower(disks)
    start = source.latest_positions({})
    shutil.copytree(disks[0] / "orders-0", disks[1] / "orders-0")
    shutil.copy(LOGS[2], disks[1] / "orders-0")
    assert len(offsets(source, {}, source.latest_positions({}))) == 720
    end = source.latest_positions(start)
    assert offsets(source, start, end) == list(range(480, 720))
    assert offsets(follower(disks), start, end) == list(range(480, 720))
    shutil.copy(LOGS[2], disks[0] / "orders-0")
    shutil.copy(LOGS[3], disks[0] / "orders-0")
    shutil.rmtree(disks[1] / "orders-0")
    assert offsets(source, end, source.latest_positions(end)) == list(range(720, 960))


def test_a_directory_that_is_renamed_meanwhile_is_looked_for_again(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = follower(disks)
    start = source.latest_positions({})
    directory = disks[0] / "orders-0"
    directory.rename(disks[0] / "away")
    (disks[0] / "away").rename(disks[0].parent / "away")
    while_asleep(monkeypatch, lambda: (disks[0].parent / "away").rename(directory))
    assert source.latest_positions(start) == start


def lose(disks: list[Path], loss: str) -> None:
    """Lose offsets of a partition that was read up to 480."""
    directory = disks[0] / "orders-0"
    if loss == "deleted":
        shutil.rmtree(directory)
    elif loss == "recreated":
        other = METADATA.read_text().replace(ID, "A" * 21 + "w")
        (directory / "partition.metadata").write_text(other)
    elif loss == "cut":
        (directory / LOGS[1].name).write_bytes(
            LOGS[1].read_bytes()[: positions(LOGS[1].read_bytes())[4]]
        )
    elif loss == "written again":
        old = LOGS[1].read_bytes()
        new = b"".join(batch_bytes(offset, 7) for offset in range(320, 600, 20))
        (directory / LOGS[1].name).write_bytes(old[: positions(old)[4]] + new)
    elif loss == "retained":
        for log in LOGS[:2]:
            (directory / log.name).unlink()
        shutil.copy(LOGS[3], directory)


LOSSES = {
    "deleted": (rf"orders-0 \(topic id {ID}\): .*is missing.* offset 480", range(0)),
    "recreated": (
        rf"orders-0 was recreated: its topic id was {ID} and is now A{{21}}w",
        range(480),
    ),
    "cut": (r"orders-0 .*truncated.*up to offset 480, and the log ends at offset 320", range(0)),
    "written again": (r"truncated.* offset 479 has leader epoch 7 instead of 0", range(320, 600)),
    "retained": (
        r"offsets 480 to 719 are lost: the log in .* begins at 720",
        range(720, 960),
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_lost_data_is_an_error_or_a_warning(
    loss: str, disks: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    message, expected = LOSSES[loss]
    start = follower(disks).latest_positions({})
    lose(disks, loss)
    strict, tolerant = follower(disks), follower(disks, fails=False)
    for _ in range(2):
        with pytest.raises(DataLossError, match=f"{message}.*set the option failOnDataLoss"):
            strict.latest_positions(start)
    assert "orders" not in caplog.text
    end = tolerant.latest_positions(start)
    assert offsets(tolerant, start, end) == list(expected)
    (warning,) = [text for text in caplog.messages if "orders" in text]
    assert "failOnDataLoss" not in warning
    assert tolerant.latest_positions(end) == end
    assert offsets(follower(disks, fails=False), start, end) == list(expected)


@pytest.mark.parametrize("loss", [*LOSSES, "unlisted"])
def test_a_trigger_does_not_give_less_than_it_said(
    loss: str, disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes between `latestOffset` and `partitions`."""
    source = follower(disks)
    end = source.latest_positions({})
    start = {
        key: {**position, "offset": 200, "byte": 0, "last": -1} for key, position in end.items()
    }
    if loss == "unlisted":
        make_unlistable(disks[0] / "orders-0", monkeypatch)
    lose(disks, loss)
    with pytest.raises(DataLossError, match=r"failOnDataLoss|offsets 200 to 479"):
        source.plan_input_partitions(start, end)
    monkeypatch.undo()
    assert len(offsets(follower(disks, fails=False), start, end)) <= 280


def test_offsets_that_are_gone_before_the_first_trigger_reads_them(disks: list[Path]) -> None:
    source = follower(disks)
    end = source.latest_positions({})
    (disks[0] / "orders-0" / LOGS[0].name).unlink()
    with pytest.raises(DataLossError, match=r"offsets 0 to 479 were to be read, .* begins at 240"):
        source.plan_input_partitions({}, end)


def test_a_listing_that_fails(disks: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(disks[0] / "orders-0", disks[1] / "other-0")
    (disks[1] / "other-0/partition.metadata").unlink()
    strict, tolerant = follower(disks), follower(disks, fails=False)
    start = strict.latest_positions({})
    assert len(start) == 2
    shutil.copy(LOGS[2], disks[1] / "other-0")
    with pytest.MonkeyPatch.context() as patch:
        make_unlistable(disks[0] / "orders-0", patch)
        with pytest.raises(DataLossError, match=r"a/orders-0: Permission denied"):
            strict.latest_positions(start)
        ignoring = follower(disks, ignoreUnreadable="true")
        with pytest.raises(DataLossError, match=r"orders-0 .* is missing"):
            ignoring.latest_positions(start)
        end = tolerant.latest_positions(start)
        assert len(offsets(tolerant, start, end)) == 240
        assert caplog.messages.count(f"kfmt: {disks[0] / 'orders-0'}: Permission denied") == 1
        other = follower(disks, topics="other")
        other_positions = {key: position for key, position in start.items() if "other" in key}
        assert len(other.latest_positions(other_positions)) == 1  # the other topic is not concerned
    shutil.copy(LOGS[2], disks[0] / "orders-0")
    assert len(offsets(strict, end, strict.latest_positions(end))) == 240


def test_a_path_that_had_files_and_has_none(disks: list[Path]) -> None:
    shutil.copytree(disks[0] / "orders-0", disks[1] / "other-0")
    (disks[1] / "other-0/partition.metadata").unlink()
    source = follower(disks)
    start = source.latest_positions({})
    shutil.rmtree(disks[0] / "orders-0")
    with pytest.raises(DataLossError, match="orders-0"):
        source.latest_positions(start)


def test_a_log_that_cannot_be_read(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a trigger, or in the search for its end."""
    source = follower(disks)
    end = source.latest_positions({})
    splits = source.plan_input_partitions({}, end)
    unreadable = disks[0] / "orders-0" / LOGS[0].name
    unreadable.rename(unreadable.with_suffix(".away"))
    with pytest.raises(UnreadableInputError, match=rf"{unreadable}: No such file"):
        list(map(partial(read_batches, source), splits))
    unreadable.with_suffix(".away").rename(unreadable)
    original_open = os.open

    def fails(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(LOGS[1].name):
            raise PermissionError(13, "Permission denied", path)
        return original_open(path, *arguments, **options)

    monkeypatch.setattr("kfmt_cli.core.source.os.open", fails)
    for ignored in ("true", "false"):
        again = follower(disks, ignoreUnreadable=ignored)
        if ignored == "true":
            assert again.latest_positions({}) == {}
            assert "Permission denied" in caplog.text
        else:
            with pytest.raises(UnreadableInputError, match=r"Permission denied.*ignoreUnreadable"):
                again.latest_positions({})


def read_batches(source: StreamFollower, split: KfmtInputPartition) -> list[Any]:
    return list(read_input_partition(source.request, split))


def _recorded(calls: list[str], name: str, function: Callable[[str], Any], path: str) -> Any:
    calls.append(name)
    return function(path)


def test_a_settled_directory_is_not_read_again(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is its partition.metadata; the stream finds new and grown segments all the same."""
    monkeypatch.setattr(stream_listing, "MIN_STABLE_SECONDS", 0.0)
    calls: list[str] = []
    for name in ("scan_directory", "read_directory_topic_id"):
        monkeypatch.setattr(
            stream_listing, name, partial(_recorded, calls, name, vars(stream_listing)[name])
        )
    partition = MovingPartition(disks, "moving-0", random.Random(1))
    source = follower(disks)
    start = source.latest_positions({})
    assert sorted(calls) == ["read_directory_topic_id"] * 2 + ["scan_directory"] * 4
    calls.clear()
    assert source.latest_positions(start) == start
    assert calls == []
    log = partition.directory / f"{0:020}.log"
    with log.open("ab") as out:
        out.write(batch_bytes(partition.end, 0))
    end = source.latest_positions(start)
    assert offsets(source, start, end) == list(range(partition.end, partition.end + 20))
    assert calls == []
    (partition.directory / f"{partition.end + 20:020}.log").write_bytes(
        batch_bytes(partition.end + 20, 0)
    )
    next_end = source.latest_positions(end)
    assert len(offsets(source, end, next_end)) == 20
    assert calls == ["scan_directory"]


def test_what_is_idle_costs_three_calls_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory's time, its last segment and one other file in turn; any change is found."""
    monkeypatch.setattr(stream_listing, "MIN_STABLE_SECONDS", 0.0)
    logs = [tmp_path / f"orders-0/{base:020}.log" for base in range(0, 100, 20)]
    logs[0].parent.mkdir()
    for log in logs:
        log.write_bytes(b"")
    listings = stream_listing.StreamListing((str(tmp_path),))
    assert listings.update_listing()
    calls: list[str] = []
    original_stat = os.stat

    def counting_stat(path: str, **options: Any) -> os.stat_result:
        calls.append(str(path))
        return original_stat(path, **options)

    monkeypatch.setattr(os, "stat", counting_stat)
    assert not listings.update_listing()
    directory_calls = [path for path in calls if str(logs[0].parent) in path]
    assert directory_calls[:2] == [str(logs[0].parent), str(logs[-1])]
    assert [path for path in map(str, logs[:-1]) if path in directory_calls] == directory_calls[2:]
    assert len(directory_calls) == 3
    logs[2].write_bytes(b"changed")
    assert any(listings.update_listing() for _ in logs[:-1])
    (file,) = (file for file in listings.files_by_path[str(tmp_path)] if file.path == str(logs[2]))
    assert file.size == len(b"changed")


@pytest.mark.parametrize("loss", ["recreated", "cut", "deleted"])
def test_up_to_spark_4_1_a_reader_is_not_told_the_start(loss: str, disks: list[Path]) -> None:
    """Before the first trigger of a process, it gets the start only together with the end."""
    request = replace(parse_request({}), paths=tuple(map(str, disks)))
    reader = KfmtStreamReader(request, DriverEnvironment(None), StreamOptions())
    start = reader.latestOffset()
    assert len(reader.partitions({}, start)) == 1
    lose(disks, loss)
    with pytest.raises(DataLossError, match="orders-0"):
        reader.latestOffset()
    again = KfmtStreamReader(request, DriverEnvironment(None), StreamOptions())
    end = again.latestOffset()
    with pytest.raises(DataLossError, match="orders-0"):
        again.partitions(start, end)


def test_the_progress_of_a_query_has_the_end_of_each_partition(disks: list[Path]) -> None:
    reader = KfmtStreamReader(
        replace(parse_request({}), paths=tuple(map(str, disks))),
        DriverEnvironment(None),
        StreamOptions(1),
    )
    assert reader.reportLatestOffset() is None
    end = reader.latestOffset({}, reader.getDefaultReadLimit())
    assert [position["offset"] for position in end.values()] == [20]
    assert reader.reportLatestOffset() == {f"orders-0@{ID}": {"offset": 240}}
    reader.latestOffset(end)
    assert reader.reportLatestOffset() == {f"orders-0@{ID}": {"offset": 480}}


def test_a_limit_does_not_starve_partitions(disks: list[Path]) -> None:
    for name in ("a-0", "z-0"):
        (disks[1] / name).mkdir()
        shutil.copy(LOGS[0], disks[1] / name)
    source = follower(disks)
    start: dict[str, Any] = {}
    for _ in range(3):
        start = source.latest_positions(start, TriggerBudget(remaining_bytes=1))
    assert sorted(start) == ["a-0", f"orders-0@{ID}", "z-0"]


def test_a_segment_that_becomes_readable_is_read(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory does not change by that."""
    original_listing, is_refused = vars(following)["list_input_files"], True

    def refused(*arguments: Any, **options: Any) -> FileSplits:
        files = list(original_listing(*arguments, **options))
        if is_refused:
            files[0] = replace(files[0], read_error="HTTP status 403")
        return FileSplits(files)

    monkeypatch.setattr(following, "list_input_files", refused)
    source = follower(disks)
    with pytest.raises(DataLossError, match="403"):
        source.latest_positions({})
    is_refused = False
    assert len(offsets(source, {}, source.latest_positions({}))) == 480
