"""Paths on the command line: when they are looked up, and where output goes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

import kfmt_cli
from kfmt_cli.cli import kfmt as command_line
from kfmt_cli.disk import input_paths
from kfmt_cli.errors import InputError
from tests.support.samples import ORDERS, TXN, kfmt
from tools.kafka import ROOT, SAMPLES

BUCKET = ROOT / "tests/kept/aiven-1.0.0/plain"


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were looked up; nothing is found."""
    paths: list[str] = []

    def located(path: str) -> str:
        paths.append(path)
        raise InputError(f"{path}: not found")

    monkeypatch.setattr(input_paths, "resolve_display_path", located)
    return paths


def test_paths_are_looked_up_when_the_options_are_good(looked_up: list[str]) -> None:
    assert kfmt("diff", "a.tar", "--jobs", "x", "b.tar").code == 2
    assert looked_up == []
    assert kfmt("diff", "a.tar", "b.tar").code == 3
    assert looked_up == ["a.tar", "b.tar"]


def test_completion_looks_no_path_up(looked_up: list[str]) -> None:
    complete = ShellComplete(command_line, {}, "kfmt", "_KFMT_COMPLETE")
    found = [item.value for item in complete.get_completions(["dump", "a.tar"], "--rec")]
    assert "--records" in found
    assert looked_up == []


@pytest.mark.parametrize("command", ["state", "stat", "diff", "salvage", "verify-crc"])
def test_links_in_a_circle_are_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    more = {"diff": [tmp_path / "loop"], "salvage": [tmp_path / "to"]}
    done = kfmt(command, tmp_path / "loop", *more.get(command, ()))
    assert (done.code, "Traceback" in done.err) == (3, False)
    assert f"{tmp_path}/loop: " in done.err


@pytest.mark.parametrize("is_below", [False, True])
def test_dst_is_no_path_to_read(tmp_path: Path, is_below: bool) -> None:
    shutil.copytree(BUCKET, tmp_path / "bucket")
    to = tmp_path / ("bucket/new" if is_below else "new")
    done = kfmt("rebuild-index", TXN, to)
    assert (done.code, done.err) == (0, "")
    assert (to / f"{0:020}.index").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("salvage", ORDERS), ()),
        (("rebuild-index", ORDERS), ()),
        (("convert-v0-to-v2", SAMPLES / "kafka-2.8.2/upgraded-0"), ()),
        (("merge", ORDERS.parent, "--to"), ()),
        (("export", ORDERS, "--to"), ()),
        (("report", ORDERS.parent, "--to"), ()),
        (("build", "-"), ()),
    ],
    ids=lambda words: words[0] if words else "",
)
def test_a_url_of_the_disk_is_a_path(
    before: tuple[str | Path, ...], after: tuple[str, ...], tmp_path: Path
) -> None:
    here, to = tmp_path / "here", tmp_path / "to"
    here.mkdir()
    to.mkdir()
    rows = kfmt("dump", ORDERS, "--records", "--json").out.encode()
    done = kfmt(*before, f"file://{to}/made", *after, stdin=rows, cwd=here)
    assert (done.code, done.err) == (0, "")
    assert list(here.iterdir()) == []
    assert list(to.iterdir()) == [to / "made"]


def test_a_url_of_the_disk_is_a_path_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, write in (("a", kfmt_cli.salvage), ("b", kfmt_cli.rebuild_index)):
        write(ORDERS, f"file://{tmp_path}/to/{name}")
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["to"]
