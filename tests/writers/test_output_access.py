"""The owner, group and permissions of what kfmt writes."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from kfmt_cli.writers.output import replace_file
from kfmt_cli.writers.output_access import current_umask, private_like
from tests.support.samples import ORDERS, kfmt

OWNER, GROUP = 23456, 34567
Access = tuple[int, int, int]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
LINES = b'{"value":"a"}\n'


def access(path: Path) -> Access:
    """Owner, group and permissions."""
    status = path.stat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def access_under(directory: Path) -> set[Access]:
    """The access of the files under a directory."""
    return {access(path) for path in directory.rglob("*") if path.is_file()}


def partition_of(directory: Path, mode: int, uid: int = OWNER, gid: int = GROUP) -> Path:
    partition = directory / "orders-0"
    shutil.copytree(ORDERS.parent, partition)
    for path in (partition, *partition.iterdir()):
        os.chown(path, uid, gid)
    for path in partition.iterdir():
        path.chmod(mode)
    return partition


@as_root
def test_rebuilt_files_keep_owner_group_and_mode_and_new_ones_get_the_logs(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, 0o640)
    changed = partition / "00000000000000000240.index"
    changed.write_bytes(bytes(8))
    changed.chmod(0o664)
    os.chown(changed, OWNER + 1, GROUP)
    (partition / "00000000000000000480.index").unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(b"not an index")
    linked = partition / "00000000000000000720.index"
    linked.unlink()
    linked.symlink_to(secret)
    assert kfmt("rebuild-index", "--in-place", partition).code == 0
    assert access(changed) == (OWNER + 1, GROUP, 0o664)
    assert access(partition / "00000000000000000480.index") == (OWNER, GROUP, 0o640)
    assert access(linked) == (OWNER, GROUP, 0o640)
    assert not linked.is_symlink()
    assert (partition / f"{linked.name}.old").readlink() == secret
    assert access(secret)[:2] == (0, 0)


@as_root
@pytest.mark.parametrize(
    "command",
    [
        "salvage {src} {dst}",
        "merge {src} --to {dst}",
        "rebuild-index {src} {dst}",
        "convert-v0-to-v2 {src} {dst}",
        "build {lines} {dst}",
    ],
)
def test_an_output_for_a_broker_belongs_to_the_owner_of_its_source(
    command: str, tmp_path: Path
) -> None:
    partition = partition_of(tmp_path, 0o640)
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(LINES)
    os.chown(lines, OWNER, GROUP)
    lines.chmod(0o640)
    output = tmp_path / "new/data/dst"
    words = command.format(src=partition, dst=output, lines=lines).split()
    assert kfmt(*words).code == 0
    assert access_under(output) == {(OWNER, GROUP, 0o640)}
    assert {access(path)[:2] for path in (output, output.parent, output.parent.parent)} == {
        (OWNER, GROUP)
    }


@as_root
def test_an_existing_destination_decides(tmp_path: Path) -> None:
    output = tmp_path / "dst"
    output.mkdir()
    os.chown(output, OWNER, GROUP)
    (tmp_path / "lines").write_bytes(LINES)
    assert kfmt("build", tmp_path / "lines", output, "--force").code == 0
    assert {owner for owner, _, _ in access_under(output)} == {OWNER}
    log = output / "00000000000000000000.log"
    log.chmod(0o600)
    os.chown(log, OWNER + 1, GROUP)
    assert kfmt("build", tmp_path / "lines", output, "--force").code == 0
    assert access(log) == (OWNER + 1, GROUP, 0o600)


@as_root
def test_who_may_not_give_files_away_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = partition_of(tmp_path, 0o644)
    index = partition / "00000000000000000240.index"
    index.write_bytes(bytes(8))
    index.chmod(0o664)

    def chown(path: Path, uid: int, gid: int) -> None:
        raise PermissionError(path, uid, gid)

    monkeypatch.setattr(os, "chown", chown)
    for command, output in (
        (f"rebuild-index --in-place {partition}", index),
        (f"salvage {partition} {tmp_path}/dst", tmp_path / "dst"),
    ):
        result = kfmt(*command.split())
        message = f"belongs to user 0, not to user {OWNER}, as only root could give it away"
        advice = f"before a broker of that user reads it, run chown -R {OWNER} {output}"
        assert f"kfmt: {output}: {message}; {advice}\n" in result.err
        assert result.code == 0
    assert access(index) == (0, 0, 0o644)  # other members of its group may not write


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_outputs_are_no_more_readable_than_their_inputs(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kfmt_cli.commands.report.command.vega_script", lambda: "")
    partition = partition_of(tmp_path, 0o644, os.getuid(), os.getgid())
    (partition / ORDERS.name).chmod(mode)
    pytest.importorskip("pyarrow")
    assert kfmt("export", tmp_path / "orders-0", "--to", tmp_path / "exported").code == 0
    pages = f"--to {tmp_path}/new/page.html --data {tmp_path}/new/page.json"
    assert kfmt("report", partition, *pages.split()).code == 0
    assert kfmt("rebuild-index", partition, tmp_path / "rebuilt").code == 0
    for output in ("exported", "new", "rebuilt"):
        assert {mode for _, _, mode in access_under(tmp_path / output)} == {mode}
    directory_mode = 0o700 | mode & 0o044 | (mode & 0o044) >> 2
    assert {access(tmp_path / name)[2] for name in ("exported", "rebuilt")} == {directory_mode}


def test_the_mask_of_a_process_is_restored(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"")
    umask = current_umask()
    outer, inner = private_like([str(secret)]), private_like([str(tmp_path)])
    secret.chmod(0o640)
    with outer:
        assert current_umask() == umask | 0o027
        inner.__enter__()
    secret.chmod(0o600)
    inner.__exit__(None, None, None)
    assert current_umask() == umask
    with private_like([str(secret), "-", "s3://b/k", str(tmp_path / "missing")]):
        assert current_umask() == umask | 0o077


def test_a_state_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "state"
    replace_file(path, b"1")
    assert access(path)[2] == 0o666 & ~current_umask()
    path.chmod(0o600)
    replace_file(path, b"2")
    assert access(path)[2] == 0o600
    assert path.read_bytes() == b"2"
