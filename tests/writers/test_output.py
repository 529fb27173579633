"""Outputs: two runs with one DST, and a directory that cannot be synced."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from kfmt_cli.errors import UsageError
from kfmt_cli.writers.output import StagingDirectory
from tests.support.samples import ORDERS, kfmt


def lost_race_message(destination: Path, name: str, force: bool | None) -> str:
    """The error of a run whose DST another run creates, with a file, before it commits."""
    staging = StagingDirectory(str(destination), force)
    staging.write_file("a.log", b"ours")
    destination.mkdir()
    (destination / name).write_bytes(b"theirs")
    with pytest.raises(UsageError) as refused:
        staging.commit_files()
    staging.discard()
    assert [path.name for path in destination.parent.iterdir()] == [destination.name]
    assert (destination / name).read_bytes() == b"theirs"
    return str(refused.value).removeprefix(str(destination))


def test_a_lost_race_is_reported_as_one(tmp_path: Path) -> None:
    retry_message = "another run has just written it; run this command again"
    cases = [
        ("a.log", None, "/a.log: already exists; choose another DST"),
        ("b.log", None, ": already exists; choose another DST"),
        ("a.log", False, "/a.log: already exists; use --force to replace it"),
        ("b.log", False, ": already exists; use --force to replace it"),
        ("b.log", True, f": {retry_message}"),
    ]
    for n, (name, force, message) in enumerate(cases):
        directory = tmp_path / str(n)
        directory.mkdir()
        assert lost_race_message(directory / "dst", name, force) == message


def test_a_command_without_force_never_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = tmp_path / "dst"
    # Another run creates DST after this one has checked it.
    monkeypatch.setattr(
        "kfmt_cli.commands.salvage.command.require_free_space", lambda *_: destination.mkdir()
    )
    result = kfmt("salvage", ORDERS.parent, destination)
    assert (result.code, result.err) == (
        2,
        f"kfmt: {destination}: already exists; choose another DST\n",
    )
    assert list(destination.iterdir()) == []


@pytest.mark.parametrize("command", ["salvage", "rebuild-index", "convert-v0-to-v2"])
def test_an_output_that_may_be_lost_is_there_with_a_warning(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = kfmt(command, ORDERS.parent, tmp_path / "expected")
    destination, original_fsync = tmp_path / "dst", os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) and destination.exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original_fsync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    result = kfmt(command, ORDERS.parent, destination)
    message = "written, but its directory cannot be synced to disk: Input/output error"
    assert f"kfmt: {destination}: {message}; a power cut may lose it\n" in result.err
    assert result.code == expected.code
    for file in (tmp_path / "expected").rglob("*.log"):
        assert (
            destination / file.relative_to(tmp_path / "expected")
        ).read_bytes() == file.read_bytes()
