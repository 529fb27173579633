"""Files are opened in few places, all of which look at what they open."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfmt_cli.core.regular_files import open_regular_file, read_regular_file
from tools.kafka import ROOT

# Names of functions that open a file by its path.
OPENERS = {
    *("open", "read_bytes", "read_text", "openpty", "memory_map", "OSFile", "read_table"),
    *("fromfile", "memmap", "loadtxt", "genfromtxt", "mkstemp", "mkdtemp", "NamedTemporaryFile"),
    *("TemporaryDirectory", "copyfile", "copy2", "copytree", "fopen", "CDLL", "input_stream"),
}
PACKAGE = ROOT / "kfmt_cli"
# Where else they are called, how often, and on what.
ELSEWHERE = {
    "__main__.py": (2, "the null device"),
    "arrow/export/atomic_files.py": (1, "a new file"),
    "arrow/intermediate_files.py": (1, "a file that the opener has just accepted"),
    "broker/log_reading/consumer.py": (3, "a log that is open"),
    "broker/log_reading/stored_batches.py": (4, "a log that is open"),
    "broker/metadata/metadata_files.py": (2, "a log that is open"),
    "broker/start/recovery_segment.py": (1, "a log that is open"),
    "broker/transactions/producer_state.py": (1, "a log that is open"),
    "commands/explain/pages/system.py": (1, "the C library"),
    "commands/export/command.py": (1, "a new file"),
    "commands/report/page/document.py": (2, "files of the package"),
    "core/native/build_state.py": (3, "files of the package"),
    "core/regular_files.py": (2, "the one opener"),
    "core/temporary_locks.py": (2, "a new file, and one that it examines"),
    "disk/archive.py": (4, "files in an open archive"),
    "disk/file_access.py": (1, "a log, which may be a pipe"),
    "disk/unpacked_files.py": (1, "a new file"),
    "spark/session.py": (2, "a new file"),
    "spark/streaming/segment_ends.py": (1, "a log that is open"),
    "writers/build/jsonl.py": (7, "functions that read a member of a line"),
    "writers/output.py": (1, "a new file"),
    "writers/salvage/restored_markers.py": (1, "a new file"),
    "writers/synced_directories.py": (1, "a directory"),
}


def iter_openers(path: Path) -> Iterator[str]:
    """The openers that a module calls or passes on."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in OPENERS:
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in OPENERS:
            yield node.id


def test_files_are_opened_nowhere_else() -> None:
    counts = {
        str(path.relative_to(PACKAGE)): sum(1 for _ in iter_openers(path))
        for path in PACKAGE.rglob("*.py")
    }
    found = {name: count for name, count in counts.items() if count}
    assert found == {name: count for name, (count, _) in ELSEWHERE.items()}, (
        "use kfmt_cli.core.regular_files"
    )


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("missing")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(1 << 40)
    refusals = {
        tmp_path / "pipe": (errno.EINVAL, "is not a regular file"),
        Path("/dev/zero"): (errno.EINVAL, "is not a regular file"),
        Path("/dev/null"): (errno.EINVAL, "is not a regular file"),
        tmp_path: (errno.EISDIR, "Is a directory"),
        tmp_path / "loop": (errno.ELOOP, os.strerror(errno.ELOOP)),
        tmp_path / "dangling": (errno.ENOENT, os.strerror(errno.ENOENT)),
        tmp_path / "huge": (errno.EFBIG, "is larger than 67108864 bytes"),
    }
    for path, (number, message) in refusals.items():
        with pytest.raises(OSError, match=re.escape(message)) as refused:
            read_regular_file(path)
        assert refused.value.errno == number
    assert read_regular_file(tmp_path / "link", 3) == b"abc"
    with pytest.raises(OSError, match="is larger than 2 bytes"):
        read_regular_file(tmp_path / "link", 2)
    with pytest.raises(OSError, match="is a link, which kfmt does not follow here"):
        read_regular_file(tmp_path / "link", follow_links=False)


def test_what_grows_while_it_is_read_is_bounded() -> None:
    with pytest.raises(OSError, match="is larger than 3 bytes"):
        read_regular_file("/proc/self/status", 3)  # has no size
    os.close(open_regular_file("/proc/self/status"))
