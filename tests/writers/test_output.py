"""Outputs: two runs with one DST, and a directory that cannot be synced."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from kfmt_cli.errors import UsageError
from kfmt_cli.writers.output import Staging
from tests.support.samples import ORDERS, kfmt


def lose_race(to: Path, name: str, force: bool | None) -> str:
    """What a run says whose DST another run makes, with a file, before it is done."""
    staging = Staging(str(to), force)
    staging.write_file("a.log", b"ours")
    to.mkdir()
    (to / name).write_bytes(b"theirs")
    with pytest.raises(UsageError) as refused:
        staging.commit()
    staging.discard()
    assert [path.name for path in to.parent.iterdir()] == [to.name]
    assert (to / name).read_bytes() == b"theirs"
    return str(refused.value).removeprefix(str(to))


def test_a_lost_race_is_told_as_it_is(tmp_path: Path) -> None:
    anew = "another run has just written it; run this command again"
    cases = [
        ("a.log", None, "/a.log: already exists; choose another DST"),
        ("b.log", None, ": already exists; choose another DST"),
        ("a.log", False, "/a.log: already exists; use --force to replace it"),
        ("b.log", False, ": already exists; use --force to replace it"),
        ("b.log", True, f": {anew}"),
    ]
    for n, (name, force, words) in enumerate(cases):
        place = tmp_path / str(n)
        place.mkdir()
        assert lose_race(place / "dst", name, force) == words


def test_a_command_without_force_never_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "dst"
    # Another run makes DST after this one has looked.
    monkeypatch.setattr(
        "kfmt_cli.commands.salvage.command.require_free_space", lambda *_: to.mkdir()
    )
    done = kfmt("salvage", ORDERS.parent, to)
    assert (done.code, done.err) == (2, f"kfmt: {to}: already exists; choose another DST\n")
    assert list(to.iterdir()) == []


@pytest.mark.parametrize("command", ["salvage", "rebuild-index", "convert-v0-to-v2"])
def test_an_output_that_may_be_lost_is_there_with_a_warning(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = kfmt(command, ORDERS.parent, tmp_path / "expected")
    to, real = tmp_path / "dst", os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) and to.exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    done = kfmt(command, ORDERS.parent, to)
    words = "written, but its directory cannot be synced to disk: Input/output error"
    assert f"kfmt: {to}: {words}; a power cut may lose it\n" in done.err
    assert done.code == expected.code
    for file in (tmp_path / "expected").rglob("*.log"):
        assert (to / file.relative_to(tmp_path / "expected")).read_bytes() == file.read_bytes()
