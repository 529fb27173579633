"""A directory that cannot be listed is not an empty one, whoever lists it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support import in_process
from tests.support.lake_runs import export, file_rows, manifest_rows, without_spark
from tests.support.samples import ORDERS, environment, kfmt

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("fsspec")

from fsspec.implementations.memory import MemoryFileSystem

from kfmt_cli.arrow.export.atomic_files import list_file_names
from kfmt_cli.arrow.export.exported_rows import find_exported_files
from kfmt_cli.core import stores
from kfmt_cli.errors import InputError, OutputError, UsageError
from kfmt_cli.spark.lake.commits import read_newest_commit

LISTING_FUNCTIONS = ("scandir", "listdir")
NO_CALL = -2


@contextmanager
def failing_listing(failed_call: int, root: str | Path = "") -> Iterator[list[str]]:
    """Make the listing with this number fail, counted over all functions and the directories whose
    paths start with `root`; yields these directories, in the order in which they are listed."""
    listed: list[str] = []
    patch = pytest.MonkeyPatch()

    def wrap(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def list_or_fail(path: Any = ".") -> Any:
            if isinstance(path, int) or not os.fspath(path).startswith(str(root)):
                return original(path)  # rmtree lists descriptors, and deletes
            listed.append(os.fspath(path))
            if len(listed) == failed_call + 1:
                raise OSError(errno.EIO, "Input/output error", os.fspath(path))
            return original(path)

        return list_or_fail

    for name in LISTING_FUNCTIONS:
        patch.setattr(os, name, wrap(getattr(os, name)))
    try:
        yield listed
    finally:
        patch.undo()


def export_here(*arguments: Path | str) -> tuple[int, str]:
    """`kfmt export` in this process: its exit code and error output."""
    texts = ["export", *map(str, arguments), "--jobs", "1"]
    code, _, err = in_process.run(texts, b"", Path.cwd(), environment())
    return code, err.decode()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two partitions, one of them with a segment that is deleted before the second run."""
    for partition in range(2):
        directory = tmp_path / f"in/orders-{partition}"
        directory.mkdir(parents=True)
        for name in ("partition.metadata", f"{0:020}.log", f"{240:020}.log"):
            shutil.copy(ORDERS.parent / name, directory)
    return tmp_path / "in"


def test_each_listing_of_an_export_may_fail(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    template = tmp_path / "template"
    export(template, logs)
    before = manifest_rows(template)
    deleted_log = logs / f"orders-0/{0:020}.log"
    deleted_log.unlink()
    shutil.copytree(template, tmp_path / "complete")
    with failing_listing(NO_CALL) as all_listed:
        export(tmp_path / "complete", logs)
    assert len(all_listed) > 8
    for failed_call in range(len(all_listed)):
        to = tmp_path / f"to-{failed_call}"
        shutil.copytree(template, to)
        with failing_listing(failed_call) as listed:
            try:
                is_reported = bool(export(to, logs).unreadable_inputs)
            except (InputError, OutputError) as error:
                is_reported = "Input/output error" in str(error)
        # The table has all its rows, and the failure is reported or of no importance.
        assert manifest_rows(to) == before, listed[failed_call]
        assert is_reported, listed[failed_call]
        assert not export(to, logs).unreadable_inputs
        assert manifest_rows(to) == file_rows(to) == before


def test_commits_that_cannot_be_listed_are_not_none(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    to = tmp_path / "to"
    export(to, logs)

    def deny(path: Any) -> list[str]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", deny)
        with pytest.raises(InputError, match="_kfmt/commits: cannot be listed: Permission denied"):
            read_newest_commit(str(to))
    assert read_newest_commit(str(to)).number == 1


@pytest.mark.parametrize(
    "arguments",
    [("dump",), ("stat",), ("check",), ("find", "--key", "a"), ("txn",), ("verify-crc",)],
    ids=lambda arguments: arguments[0],
)
def test_commands_name_a_directory_that_cannot_be_listed(
    arguments: tuple[str, ...], logs: Path
) -> None:
    command, *options = arguments
    for failed_call in count():
        with failing_listing(failed_call, logs) as listed:
            result = kfmt(command, logs, *options)
        if failed_call == len(listed):
            break
        assert result.code == 3, listed[failed_call]
        assert f"{listed[failed_call]}: Input/output error" in result.err
    assert failed_call >= 3


def test_export_reads_all_but_a_directory_that_cannot_be_listed(logs: Path, tmp_path: Path) -> None:
    with failing_listing(NO_CALL) as listed:
        assert export_here(logs, "--to", tmp_path / "all")[0] == 0
    failed_calls = [i for i, path in enumerate(listed) if path == str(logs / "orders-1")]
    for failed_call in failed_calls:
        with failing_listing(failed_call):
            code, err = export_here(logs, "--to", tmp_path / f"to-{failed_call}")
        n_rows = sum(file_rows(tmp_path / f"to-{failed_call}").values())
        if code == 0:  # it was listed again
            assert n_rows == 960
            continue
        assert (code, n_rows) == (3, 480)
        assert "orders-1: Input/output error" in err
    assert code == 3


def test_a_store_that_cannot_be_listed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec's own `isdir` and `find` omit what they cannot list."""
    monkeypatch.setattr(stores, "RETRY_PAUSES_SECONDS", ())
    file_system = MemoryFileSystem()
    file_system.pipe("/lake/_kfmt/commits/0000000001.json", b"{}")
    file_system.pipe("/lake/records/part.parquet", b"")
    assert list_file_names("memory://lake") == {"_kfmt", "records"}
    assert list_file_names("memory://lake/_kfmt/commits") == {"0000000001.json"}
    assert list_file_names("memory://lake/nothing") == set()
    original_ls = MemoryFileSystem.ls
    for denied in ("/lake/_kfmt/commits", "/lake", "/lake/records"):

        def deny(
            self: Any, path: str, *arguments: Any, denied: str = denied, **options: Any
        ) -> Any:
            if path.rstrip("/") == denied:
                raise PermissionError(errno.EACCES, "Permission denied")
            return original_ls(self, path, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(MemoryFileSystem, "ls", deny)
            with pytest.raises(InputError, match="Permission denied"):
                list_file_names(f"memory:/{denied}")
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "ls", deny)
        with pytest.raises(InputError, match=r"records: .*Permission denied"):
            find_exported_files("memory://lake")


def test_one_missing_path_is_reported_and_the_others_are_read(logs: Path, tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.mkdir()
    code, err = export_here(missing, logs, empty, "--to", tmp_path / "to")
    assert code == 3
    assert f"{missing}: No such file or directory" in err
    assert f"{empty}: contains no files" in err
    assert sum(file_rows(tmp_path / "to").values()) == 960
    assert export_here(missing, "--to", tmp_path / "alone")[0] == 3
    code, err = export_here(logs, missing, "--topics", "payments", "--to", tmp_path / "topic")
    assert code == 3
    assert "no topic 'payments' in the given paths that could be read" in err


def test_a_missing_path_stops_only_what_removes_rows(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)
    to, moved = tmp_path / "to", tmp_path / "moved"
    moved.mkdir()
    shutil.move(logs / "orders-1", moved / "orders-1")
    export(to, logs, moved)
    before = manifest_rows(to)
    shutil.rmtree(moved)
    for mode in ("sync", "replace"):
        with pytest.raises(InputError, match=f"--mode {mode} would remove the rows"):
            export(to, logs, moved, mode=mode)
    export(to, logs, moved)
    assert manifest_rows(to) == before
    with pytest.raises(UsageError, match="no topic"):
        export(to, logs, topics="payments")


def test_the_manifest_never_names_deleted_files(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is killed between its commit and the manifest; the next one first writes it."""
    from kfmt_cli.spark.lake.lake_table import LakeTable

    without_spark(monkeypatch)
    to, log = tmp_path / "to", logs / f"orders-1/{240:020}.log"
    log_bytes = log.read_bytes()
    log.write_bytes(log_bytes[: len(log_bytes) // 2])
    export(to, logs)
    log.write_bytes(log_bytes)

    class KilledError(BaseException):
        pass

    def kill(_: LakeTable) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "write_manifest", kill)
        with pytest.raises(KilledError):
            export(to, logs)
    missing_files: list[str] = []
    original_plan = LakeTable.plan_run

    def look(self: LakeTable, *arguments: Any) -> None:
        original_plan(self, *arguments)
        outputs = json.loads((to / "_kfmt/manifest.json").read_text())["outputs"]
        missing_files.extend(
            output["file"] for output in outputs if not (to / output["file"]).exists()
        )

    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "plan_run", look)
        export(to, logs)
    assert not missing_files
    assert json.loads((to / "_kfmt/manifest.json").read_text())["commit"] == 2
