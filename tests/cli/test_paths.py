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
def resolved_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were resolved; none is found."""
    paths: list[str] = []

    def resolve(path: str) -> str:
        paths.append(path)
        raise InputError(f"{path}: not found")

    monkeypatch.setattr(input_paths, "mount_and_resolve_path", resolve)
    return paths


def test_paths_are_looked_up_when_the_options_are_good(resolved_paths: list[str]) -> None:
    assert kfmt("diff", "a.tar", "--jobs", "x", "b.tar").code == 2
    assert resolved_paths == []
    assert kfmt("diff", "a.tar", "b.tar").code == 3
    assert resolved_paths == ["a.tar", "b.tar"]


def test_completion_looks_no_path_up(resolved_paths: list[str]) -> None:
    completion = ShellComplete(command_line, {}, "kfmt", "_KFMT_COMPLETE")
    completions = [item.value for item in completion.get_completions(["dump", "a.tar"], "--rec")]
    assert "--records" in completions
    assert resolved_paths == []


@pytest.mark.parametrize("command", ["state", "stat", "diff", "salvage", "verify-crc"])
def test_links_in_a_circle_are_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    other_paths = {"diff": [tmp_path / "loop"], "salvage": [tmp_path / "to"]}
    result = kfmt(command, tmp_path / "loop", *other_paths.get(command, ()))
    assert (result.code, "Traceback" in result.err) == (3, False)
    assert f"{tmp_path}/loop: " in result.err


@pytest.mark.parametrize("is_in_bucket", [False, True])
def test_dst_is_no_path_to_read(tmp_path: Path, is_in_bucket: bool) -> None:
    shutil.copytree(BUCKET, tmp_path / "bucket")
    to_path = tmp_path / ("bucket/new" if is_in_bucket else "new")
    result = kfmt("rebuild-index", TXN, to_path)
    assert (result.code, result.err) == (0, "")
    assert (to_path / f"{0:020}.index").exists()


@pytest.mark.parametrize(
    ("arguments", "trailing_arguments"),
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
    arguments: tuple[str | Path, ...], trailing_arguments: tuple[str, ...], tmp_path: Path
) -> None:
    working_directory, to_directory = tmp_path / "here", tmp_path / "to"
    working_directory.mkdir()
    to_directory.mkdir()
    rows = kfmt("dump", ORDERS, "--records", "--json").out.encode()
    result = kfmt(
        *arguments,
        f"file://{to_directory}/made",
        *trailing_arguments,
        stdin=rows,
        cwd=working_directory,
    )
    assert result.code == 0, result.err
    assert all(f"{to_directory}/made" in line for line in result.err.splitlines())
    assert list(working_directory.iterdir()) == []
    assert list(to_directory.iterdir()) == [to_directory / "made"]


def test_a_url_of_the_disk_is_a_path_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, write in (("a", kfmt_cli.salvage), ("b", kfmt_cli.rebuild_index)):
        write(ORDERS, f"file://{tmp_path}/to/{name}")
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["to"]
