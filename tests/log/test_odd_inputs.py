"""Inputs that are not what their name says, that are named twice, or whose text is ambiguous."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import kfmt_cli
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.errors import InputError
from tests.cli.test_cli import COMMAND, plain
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS, TXN, environment, kfmt
from tests.support.segments import write
from tests.support.terminal import run_on_terminal
from tools.kafka import ROOT, SAMPLES

NAME = "00000000000000000000"
LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
HTML_PAGE = b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n"


@pytest.mark.parametrize(
    "content", [b"", b"version: 0\ntopic_id: pXDJnKcQSpqXRcJdVmtbiw\n", HTML_PAGE]
)
@pytest.mark.parametrize("name", [".lock", "some-file"])
def test_what_is_no_log_is_not_shown_as_an_empty_one(
    name: str, content: bytes, tmp_path: Path
) -> None:
    file = write(tmp_path, content, name)
    for command in ("dump", "verify-crc"):
        result = kfmt(command, file)
        assert (result.code, result.out) == (3, "")
        assert name in result.err


def test_a_checkpoint_without_bytes_is_as_a_broker_makes_it(tmp_path: Path) -> None:
    file = write(tmp_path, b"", "leader-epoch-checkpoint")
    result = kfmt("dump", file)
    assert "0 entries shown" in result.out
    assert (result.code, result.err) == (0, "")
    for content in (b"0\n", b"text\n", b"text\nof some\nlines\n"):
        file.write_bytes(content)
        result = kfmt("dump", file, "--json")
        assert (result.code, set(result.codes)) == (1, {"checkpoint-malformed"})


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_file_that_stands_for_another_is_called_what_it_is(suffix: str, tmp_path: Path) -> None:
    for content, description in ((LFS_POINTER, "Git LFS pointer"), (HTML_PAGE, "an HTML page")):
        file = write(tmp_path, content, NAME + suffix)
        result = kfmt("dump", file)
        assert (result.code, result.out) == (3, "")
        assert description in result.err


def test_the_rest_of_a_directory_is_shown_beside_a_foreign_file(tmp_path: Path) -> None:
    write(tmp_path, LFS_POINTER)
    shutil.copy(ORDERS, tmp_path / "00000000000000000240.log")
    result = kfmt("dump", tmp_path, "--json")
    assert result.code == 3
    assert len(result.of("batch")) == 12


def test_damage_that_looks_like_a_page_does_not_hide_batches(tmp_path: Path) -> None:
    file = write(tmp_path, HTML_PAGE + ORDERS.read_bytes())
    assert len(kfmt("dump", file, "--json").of("batch")) == 12


def value_cells(directory: Path, *values: bytes | None) -> list[str]:
    """The cells in the value column of a table for these values."""
    records = [record(b"k", value, i) for i, value in enumerate(values)]
    file = write(directory, batch_of(b"".join(records), 0, len(values)))
    lines = kfmt("dump", file, "--records").out.splitlines()[3:-1]
    return [line.split('"k"   ', 1)[1].strip() for line in lines]


def test_text_in_a_table_differs_from_a_null(tmp_path: Path) -> None:
    values = [None, b"null (tombstone)", b"null", b"", b'""', b'"null"', b"nul", b'{"a":1}']
    cells = value_cells(tmp_path, *values)
    assert cells == [
        "null (tombstone)",
        '"null (tombstone)"',
        '"null"',
        '""',
        r'"\"\""',
        r'"\"null\""',
        "nul",
        '{"a":1}',
    ]


def test_quotes_inside_a_key_are_escaped(tmp_path: Path) -> None:
    file = write(tmp_path, batch_of(record(b'a"  "b', b"v"), 0, 1))
    assert r'"a\"  \"b"  v' in kfmt("dump", file, "--records").out


@pytest.mark.parametrize("byte", [b"\xff", b"\x00", b'"', b"\xc2\xad"])
def test_a_large_value_of_anything_is_shown_whole_in_a_pipe(byte: bytes, tmp_path: Path) -> None:
    file = write(tmp_path, batch_of(record(b"k", byte * 2_000_000), 0, 1))
    assert len(kfmt("dump", file, "--records").out) > 2_000_000


@pytest.fixture
def mostly_empty(tmp_path: Path) -> Path:
    """A directory of one log with records and six that were never written to."""
    for i in range(6):
        directory = tmp_path / f"quiet-{i}"
        for suffix in (".log", ".index", ".timeindex"):
            write(directory, b"", NAME + suffix)
    with (tmp_path / "quiet-0" / f"{NAME}.index").open("wb") as out:
        out.truncate(10 << 20)
    for suffix in (".log", ".index", ".timeindex"):
        write(tmp_path / "orders-0", ORDERS.with_suffix(suffix).read_bytes(), NAME + suffix)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "n_lines", "summary"),
    [
        ("dump", 50, "17 empty files not shown"),
        ("verify-crc", 2, ""),
        ("index-check", 2, ""),
    ],
)
def test_empty_files_are_counted_in_one_line(
    command: str, n_lines: int, summary: str, mostly_empty: Path
) -> None:
    result = kfmt(command, mostly_empty)
    assert (result.code, result.err) == (0, "")
    assert len(result.out.splitlines()) == n_lines
    assert not summary or f"{summary}; use --all to list them" in result.out
    output = kfmt(command, mostly_empty, "--all").out
    assert output.count("quiet-") >= 6
    assert "not shown" not in output
    log = mostly_empty / "quiet-3" / f"{NAME}.log"
    assert "quiet-3" in kfmt(command, log, "--all").out
    if command != "dump":
        json_rows = kfmt(command, mostly_empty, "--json").of("file")
        assert len([row for row in json_rows if "quiet-" in row["file"]]) >= 6


@pytest.mark.parametrize("command", ["dump", "verify-crc", "index-check"])
def test_a_file_is_read_once_by_whatever_path(command: str, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    for suffix in (".log", ".index", ".timeindex"):
        write(directory, ORDERS.with_suffix(suffix).read_bytes(), NAME + suffix)
    (tmp_path / "link").symlink_to(directory)
    file = directory / f"{NAME}.log"
    rows = kfmt(command, directory, "--json").rows
    for paths in (
        (directory, file),
        (file, directory),
        (tmp_path / "link", directory),
        (file, file.with_suffix(".index"), f"{directory}/../orders-0"),
    ):
        if command != "index-check" and file.with_suffix(".index") in paths:
            continue
        assert len(kfmt(command, *paths, "--json").rows) == len(rows), paths
    file_rows = kfmt("index-check", file.with_suffix(".index"), file, "--json").of("file")
    assert len(file_rows) == 2


@pytest.mark.parametrize(
    "command",
    [
        *(["check"], ["index-check"], ["index-check", "--lookup-offset", "3"], ["state"], ["txn"]),
        *(["find", "--offset", "1"], ["retention"], ["compaction"], ["cat", "--last", "1"]),
    ],
    ids=" ".join,
)
def test_commands_that_need_a_directory_refuse_standard_input_with_the_same_message(
    command: list[str],
) -> None:
    result = kfmt(*command, "-")
    assert (result.code, result.err) == (2, "kfmt: -: this command cannot read standard input\n")


@pytest.mark.parametrize(
    "command",
    [
        *(["check"], ["verify-crc"], ["index-check"], ["dump"], ["state"], ["txn"], ["stat"]),
        *(["find", "--offset", "1"], ["retention"], ["compaction"], ["cat"], ["hex"]),
        *(["salvage", "DST"], ["convert-v0-to-v2", "DST"], ["rebuild-index", "DST"]),
    ],
    ids=" ".join,
)
def test_a_path_that_does_not_exist_is_reported_with_the_same_message(
    command: list[str], tmp_path: Path
) -> None:
    name, *arguments = command
    other_arguments = [str(tmp_path / "to") if text == "DST" else text for text in arguments]
    missing = tmp_path / "gone"
    all_arguments = (
        [str(missing), *other_arguments] if "DST" in arguments else [*other_arguments, str(missing)]
    )
    result = kfmt(name, *all_arguments)
    assert result.code == 3
    assert result.err.startswith(f"kfmt: {missing}: No such file or directory\n")


@pytest.mark.parametrize(
    ("command", "directory", "code"),
    [
        (["verify-crc", "--json"], "damaged_segments", 1),
        (["dump", "--json"], "damaged_segments", 1),
        (["dump", "--json"], "sample_segments/kafka-3.9.1-broker1", 0),
    ],
)
def test_a_closed_pipe_does_not_hide_findings(
    command: list[str], directory: str, code: int, tmp_path: Path
) -> None:
    for i in range(400 if code else 0):  # more output than the capacity of a pipe
        shutil.copytree(ROOT / directory / "flipped-bit-0", tmp_path / f"x-{i}")
    process = subprocess.Popen(
        [*COMMAND, *command, str(tmp_path if code else ROOT / directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(),
    )
    assert process.stdout is not None
    for line in process.stdout:
        if not code or b"crc-mismatch" in line:
            break
    process.stdout.close()
    assert process.wait(60) == code


@pytest.mark.parametrize("name", ["a\x1b[31mred-0", "new\nline-0", "tab\there-0"])
def test_csv_escapes_control_characters_of_names(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, TXN.read_bytes())
    shutil.copy(TXN.with_suffix(".index"), tmp_path / name)
    index = tmp_path / name / TXN.with_suffix(".index").name
    checkpoint = write(tmp_path / name, b"0\n1\n0 0\n", "leader-epoch-checkpoint")
    for command, *arguments in (
        ("dump", tmp_path),
        ("dump", tmp_path, "--records"),
        ("dump", index),
        ("dump", checkpoint),
        ("verify-crc", tmp_path),
    ):
        out = kfmt(str(command), *arguments, "--format", "csv").out
        assert all(char == "\n" or char.isprintable() for char in out)
        rows = list(csv.reader(io.StringIO(out)))
        assert len(rows) > 1
        assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("dump", TXN),
        ("dump", TXN, "--records"),
        ("dump", SAMPLES / "kafka-3.9.1-broker1/txn-0/00000000000000000736.snapshot"),
        ("verify-crc", TXN),
        ("index-check", TXN, "--all"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[-40:],
)
def test_a_narrow_terminal_says_that_columns_are_hidden(arguments: tuple[str | Path, ...]) -> None:
    narrow_output = plain(run_on_terminal(*arguments, columns=40))
    assert "hidden; use --wide to see all" in narrow_output
    for output in (
        plain(run_on_terminal(*arguments, "--wide", columns=40)),
        plain(run_on_terminal(*arguments, columns=250)),
        kfmt(*arguments).out,
    ):
        assert "hidden" not in output


def test_a_pipe_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / f"{NAME}.log"
    os.mkfifo(fifo)
    original_fstat = os.fstat

    def slow_fstat(fd: int) -> os.stat_result:
        writer.join()  # the other end has been written and closed by now
        return original_fstat(fd)

    writer = threading.Thread(target=lambda: fifo.write_bytes(b"all there is"))
    monkeypatch.setattr("kfmt_cli.core.source.os.fstat", slow_fstat)
    writer.start()
    blocks: list[bytes] = []

    def read() -> None:
        source = open_source(str(fifo))
        blocks.append(source.read_block(0, 100, 100))
        source.close()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(10)
    assert blocks == [b"all there is"]


@pytest.mark.parametrize("command", ["dump -", "verify-crc -", "build - out"])
def test_closed_standard_input_is_reported(command: str, tmp_path: Path) -> None:
    arguments = ["sh", "-c", '"$@" <&-', "sh", *COMMAND, *command.split()]
    result = subprocess.run(
        arguments, check=False, capture_output=True, cwd=tmp_path, env=environment()
    )
    assert (result.returncode, b"standard input is closed" in result.stderr) == (3, True)
    assert b"Traceback" not in result.stderr


def test_a_path_after_the_last_requested_row_is_not_opened(tmp_path: Path) -> None:
    result = kfmt("dump", "--limit", "2", ORDERS, tmp_path / "gone")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("path", ["", "a\0b", "-"])
def test_paths_that_cannot_be_are_input_errors_in_python(path: str) -> None:
    with pytest.raises(InputError):
        list(kfmt_cli.read_batches(path))
