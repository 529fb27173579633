"""How the commands behave in a shell: streams, pipes, terminals, signals, wrong paths."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from kfmt_cli.cli import kfmt as commands
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS, TXN, Row, environment, kfmt
from tests.support.segments import positions, write
from tests.support.terminal import run_on_terminal
from tools.kafka import ROOT, SAMPLES

COMMAND = [sys.executable, "-m", "kfmt_cli"]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
@pytest.mark.parametrize(
    "arguments",
    [
        ("dump", TXN),
        ("dump", TXN, "--records"),
        ("dump", ORDERS, "--records", "--limit", "30"),
        ("dump", SAMPLES / "kafka-2.8.2/upgraded-0"),
        ("verify-crc", TXN),
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[-40:],
)
def test_rows_fit_the_terminal(arguments: tuple[str | Path, ...], columns: int) -> None:
    lines = plain(run_on_terminal(*arguments, columns=columns)).split("\r\n")
    wide_lines = [line for line in lines if len(line) > columns]
    # A path on a separate line is not wrapped, so that it can be pasted.
    assert not [line for line in wide_lines if "segment," not in line and " " in line.strip()]


def test_colour_is_for_terminals_and_can_be_refused() -> None:
    assert "\x1b[36m" in run_on_terminal("dump", TXN)
    assert "\x1b" not in run_on_terminal("dump", TXN, NO_COLOR="1")
    assert "\x1b" not in run_on_terminal("dump", TXN, "--color", "never")
    assert "\x1b" not in kfmt("dump", TXN).out
    assert "\x1b[36m" in kfmt("dump", TXN, "--color", "always").out


def test_rows_in_a_pipe_are_not_cut() -> None:
    rows = kfmt("dump", ORDERS, "--records", "--limit", "5", COLUMNS="40").out
    assert "yarrow opal pearl umber maple zephyr grove delta" in rows
    assert "…" not in rows


def test_nothing_of_a_record_reaches_the_terminal_raw(tmp_path: Path) -> None:
    control_characters = (
        b'\x1b]0;owned\x07\r\n\x00\x7f\xc2\x9b31m\xe2\x80\xae\xff\\"' + "ü漢".encode()
    )
    file = write(tmp_path, batch_of(record(control_characters, control_characters), 0, 1))
    for arguments in ([], ["--json"], ["--format", "csv"]):
        result = kfmt("dump", file, "--records", *arguments)
        assert result.code == 0
        body = result.out.replace("\n", "")
        assert all(character.isprintable() or character == "\u202e" for character in body), (
            arguments
        )
        if arguments != ["--json"]:
            assert "\u202e" not in body
    screen = run_on_terminal("dump", file, "--records", "--color", "never", columns=200)
    assert "\x1b" not in screen.replace("\r\n", "")
    assert "ü漢" in screen


def test_null_empty_and_text_that_says_null_differ(tmp_path: Path) -> None:
    data = [record(None, None, 0), record(b"", b"", 1), record(b"null", b"null", 2)]
    file = write(tmp_path, batch_of(b"".join(data), 0, 3))
    rows = kfmt("dump", file, "--records", "--json").of("record")
    assert [(row["key_size"], row["key"], row["value_size"], row["value"]) for row in rows] == [
        (-1, None, -1, None),
        (0, "", 0, ""),
        (4, "null", 4, "null"),
    ]
    lines = kfmt("dump", file, "--records").out.splitlines()[3:6]
    assert len({re.sub(r"^ +\d+ ", "", line) for line in lines}) == 3
    csv_lines = kfmt("dump", file, "--records", "--format", "csv").out.splitlines()[1:]
    assert ",-1,,,-1,,," in csv_lines[0]
    assert ',0,"",,0,"",,' in csv_lines[1]


@pytest.mark.parametrize(
    ("value", "csv_encoding", "json_text"),
    [
        *((b"\x1f", "base64", "\\u001f"), (b" ", "", " "), (b"~", "", "~")),
        *((b"\x7f", "base64", "\\u007f"), (b"\xc2\x80", "base64", "\\u0080")),
        *((b"\xc2\x9b", "base64", "\\u009b"), (b"\xc2\x9f", "base64", "\\u009f")),
        *((b"\xc2\xa0", "", "\u00a0"), (b"\xc3\x9b", "", "\u00db")),
        *((b"\t", "", "\\t"), (b"\n", "", "\\n"), (b"\r", "", "\\r")),
        *((b"\xd8\x9c", "base64", "\\u061c"), (b"\xe2\x80\xa8", "base64", "\\u2028")),
    ],
)
def test_each_control_character_alone_is_never_written_raw(
    value: bytes, csv_encoding: str, json_text: str, tmp_path: Path
) -> None:
    """In CSV a value with one is base64; line breaks and tabs are quoted."""
    file = write(tmp_path, batch_of(record(b"k", value), 0, 1))
    (row,) = csv.DictReader(
        io.StringIO(kfmt("dump", file, "--records", "--format", "csv").out, newline="")
    )
    expected = base64.b64encode(value).decode() if csv_encoding else value.decode()
    assert (row["value"], row["value_encoding"]) == (expected, csv_encoding)
    result = kfmt("dump", file, "--records", "--json")
    assert f'"value":"{json_text}"' in result.out
    assert result.of("record")[0]["value"] == value.decode()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("auto", {"key": "k", "value": "AP8sMg==", "value_encoding": "base64"}),
        ("hex", {"key": "6b", "key_encoding": "hex", "value": "00ff2c32", "value_encoding": "hex"}),
        (
            "base64",
            {
                "key": "aw==",
                "key_encoding": "base64",
                "value": "AP8sMg==",
                "value_encoding": "base64",
            },
        ),
        ("utf8", {"key": "k", "value": "\x00\ufffd,2", "value_encoding": "utf8-replaced"}),
    ],
)
def test_bytes_are_written_as_asked(mode: str, expected: Row, tmp_path: Path) -> None:
    file = write(tmp_path, batch_of(record(b"k", b"\x00\xff,2"), 0, 1))
    row = kfmt("dump", file, "--records", "--json", "--bytes", mode).of("record")[0]
    assert {
        name: value
        for name, value in row.items()
        if name.startswith(("key", "value")) and "_size" not in name
    } == (expected)


def test_csv_has_as_many_fields_in_every_line() -> None:
    for options in ([], ["--records"]):
        result = kfmt("dump", SAMPLES / "kafka-3.9.1-broker1", *options, "--format", "csv")
        csv.field_size_limit(1 << 24)
        rows = list(csv.reader(io.StringIO(result.out)))
        assert len({len(row) for row in rows}) == 1
        assert rows[0][0] == "file"
        assert len(rows) > 500
    dict_rows = list(csv.DictReader(io.StringIO(result.out)))
    assert json.loads(dict_rows[-1]["headers"]) == []


def test_offsets_select_batches_and_records() -> None:
    rows = kfmt("dump", ORDERS, "--from-offset", "25", "--to-offset", "61", "--json").of("batch")
    assert [row["base_offset"] for row in rows] == [20, 40, 60]
    result = kfmt("dump", ORDERS, "--records", "--from-offset", "25", "--to-offset", "61", "--json")
    assert [row["offset"] for row in result.of("record")] == list(range(25, 62))
    assert [row["base_offset"] for row in result.of("batch")] == [20, 40, 60]
    assert kfmt("dump", ORDERS, "--from-offset", "99999", "--json").rows == []


def test_limit_counts_rows() -> None:
    assert len(kfmt("dump", ORDERS, "--limit", "3", "--json").rows) == 3
    result = kfmt("dump", ORDERS.parent, "--records", "--limit", "25", "--json")
    assert [row["offset"] for row in result.of("record")] == list(range(25))
    assert len(result.of("batch")) == 2


def test_names_open_files_from_where_one_stands() -> None:
    for path in ("kafka-3.9.1-broker1", "./kafka-3.9.1-broker1/", ".", SAMPLES / "kafka-2.8.2"):
        rows = kfmt("verify-crc", path, "--json", cwd=SAMPLES).of("file")
        assert rows
        for row in rows:
            assert row["file"].startswith(str(path).rstrip("/"))
            assert (SAMPLES / row["file"]).is_file()
            if row["topic"] is not None:
                directory = (SAMPLES / row["file"]).parent
                assert directory.name.startswith(f"{row['topic']}-{row['partition']}")
                assert (SAMPLES / row["log_dir"]).samefile(directory.parent)
    relative = kfmt("verify-crc", "orders-0/00000000000000000000.log", cwd=ORDERS.parent.parent)
    assert " orders-0/00000000000000000000.log " in relative.out


def test_directories_are_walked_by_topic_partition_and_base_offset(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()[: positions(ORDERS.read_bytes())[1]]
    for directory in ("b-0", "a-10", "a-2"):
        for name in ("00000000000000000000.log", "00000000000000000000.log.deleted"):
            write(tmp_path / directory, data, name)
    result = kfmt("verify-crc", tmp_path, "--json")
    assert [Path(row["file"]).parent.name for row in result.of("file")] == ["a-2", "a-10", "b-0"]
    deleted = tmp_path / "b-0" / "00000000000000000000.log.deleted"
    assert kfmt("verify-crc", deleted).code == 0


def test_standard_input_is_a_log_too() -> None:
    data = TXN.read_bytes()
    for name in ("dump", "verify-crc"):
        piped = kfmt(name, "-", "--json", stdin=data)
        assert piped.code == 0
        file_output = kfmt(name, TXN, "--json").out
        location = f'"file":"{TXN}","topic":"txn","partition":0,"log_dir":"{TXN.parents[1]}"'
        file_output = file_output.replace(
            location, '"file":"-","topic":null,"partition":null,"log_dir":null'
        )
        assert piped.out.replace('"kind":"log"', "") == file_output.replace('"kind":"log"', "")


def test_standard_input_that_is_damaged() -> None:
    data = bytearray(ORDERS.read_bytes())
    data[3000:3100] = bytes(100)
    data += bytes(3_000_000)
    piped = kfmt("verify-crc", "-", "--json", stdin=bytes(data))
    assert piped.codes == ["crc-mismatch", "zero-tail"]


def test_a_pipe_that_is_closed_ends_quietly() -> None:
    for arguments in (["dump", SAMPLES, "--records"], ["dump", SAMPLES, "--records", "--json"]):
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(30) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_reported() -> None:
    for arguments in (["dump", TXN], ["verify-crc", TXN], ["encode-varint", "1"], ["--help"]):
        with Path("/dev/full").open("wb") as full:
            result = subprocess.run(
                [*COMMAND, *map(str, arguments)],
                stdout=full,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                env=environment(),
                check=False,
            )
        assert result.returncode == 3
        assert result.stderr == b"kfmt: cannot write output: No space left on device\n"


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*COMMAND, "dump", "--records", "--json", str(fifo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        # A test run in the background ignores this signal, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    with fifo.open("wb") as writer:
        writer.write(TXN.read_bytes())
        writer.flush()
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in stderr


def test_rows_come_while_a_pipe_is_still_open(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*COMMAND, "dump", "--json", str(fifo)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    )
    data = ORDERS.read_bytes()
    position = positions(data)[4]
    with fifo.open("wb") as writer:
        writer.write(data[: position + 30])
        writer.flush()
        assert process.stdout is not None
        first_rows = [json.loads(process.stdout.readline()) for _ in range(4)]
        assert [row["base_offset"] for row in first_rows] == [0, 20, 40, 60]
        writer.write(data[position + 30 :])
    remaining = process.stdout.read().splitlines()
    process.stdout.close()
    assert len(remaining) == 8
    assert process.wait(30) == 0


@pytest.mark.parametrize("command", ["dump", "verify-crc"])
def test_what_cannot_be_read_is_exit_3_and_the_rest_is_done(command: str, tmp_path: Path) -> None:
    missing = kfmt(command, "no/such.log")
    assert (missing.code, missing.out) == (3, "")
    assert missing.err == "kfmt: no/such.log: No such file or directory\n"
    empty = kfmt(command, tmp_path)
    assert empty.code == 3
    assert "no log segments in or under this directory" in empty.err
    readme = kfmt(command, "README.md")
    assert readme.code == 3
    assert "not a Kafka log" in readme.err
    index = kfmt(command, ORDERS.with_suffix(".index"))
    assert index.code == (0 if command == "dump" else 3)
    mixed = kfmt(command, "no/such.log", ORDERS, "--json")
    assert mixed.code == 3
    assert len(mixed.rows) >= 2


def test_an_empty_log_is_clean() -> None:
    empty = SAMPLES / "kafka-3.9.1-broker1/empty-0/00000000000000000000.log"
    assert empty.stat().st_size == 0
    assert kfmt("verify-crc", empty).code == 0
    assert kfmt("dump", empty, "--json").rows == []


def test_wrong_usage_is_exit_2() -> None:
    for arguments in (
        ["dump"],
        ["dump", TXN, "--format", "xml"],
        ["dump", TXN, "--bits", "--json"],
        ["dump", TXN, "--columns", "offsets,nonsense"],
        ["dump", TXN, "--limit", "0"],
        ["verify-crc", TXN, "--max-decompressed", "many"],
        ["nonsense"],
    ):
        result = kfmt(*arguments)
        assert (result.code, result.out) == (2, ""), arguments


@pytest.mark.parametrize("size", ["0", "0K", "-1", "1.5M", "K", "", "1KK", "1 K", "\u0663"])
def test_an_invalid_size_is_refused(size: str) -> None:
    result = kfmt("retention", ORDERS.parent, "--segment-bytes", size)
    assert (result.code, result.out) == (2, "")
    assert f"{size!r} is not a size (examples: 1048576, 64M, 1G)" in result.err


@pytest.mark.parametrize(
    ("size", "n_bytes"), [("1", 1), ("100B", 100), ("2k", 2048), ("1KiB", 1024), ("3mb", 3 << 20)]
)
def test_sizes_have_powers_of_1024(size: str, n_bytes: int) -> None:
    result = kfmt("retention", ORDERS.parent, "--segment-bytes", size, "--json")
    assert result.of("roll")[0]["at_bytes"] == n_bytes


def test_inputs_are_only_read(tmp_path: Path) -> None:
    file = write(tmp_path, TXN.read_bytes())
    old_stat = file.stat()
    kfmt("dump", tmp_path, "--records")
    kfmt("verify-crc", "--deep", tmp_path)
    new_stat = file.stat()
    assert (old_stat.st_mtime_ns, old_stat.st_size) == (new_stat.st_mtime_ns, new_stat.st_size)
    assert sorted(tmp_path.iterdir()) == [file]


def test_columns_can_be_chosen() -> None:
    lines = kfmt(
        "dump", TXN, "--columns", "crc,offsets,attributes", "--limit", "1"
    ).out.splitlines()
    assert lines[1].split() == ["crc", "offsets", "attributes"]
    assert lines[2].split() == ["✓", "cee7eddd", "0–5", "16"]


def test_a_huge_file_shows_its_first_rows_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, ORDERS.read_bytes())
    with file.open("r+b") as stream:
        stream.truncate(8 << 30)  # sparse: zeros that take no space
    start_seconds = time.monotonic()
    assert len(kfmt("dump", file, "--limit", "5", "--json").rows) == 5
    assert time.monotonic() - start_seconds < 20


HEAVY_MODULES = ("numpy", "rich", "lz4", "zstandard")
# Imports of the package crc32c, and of the prediction of a broker's start.
UNNEEDED_MODULES = ("importlib.metadata", "email", "kfmt_cli.formats.kafka_messages")


@pytest.mark.parametrize(
    ("arguments", "unwanted_modules"),
    [
        (["--version"], HEAVY_MODULES),
        (["encode-varint", "300"], HEAVY_MODULES),
        (["--help"], HEAVY_MODULES[1:]),
        (["verify-crc", ORDERS], ("rich", "lz4", *UNNEEDED_MODULES)),
        (["verify-crc", ORDERS.parent], ("rich", "lz4", *UNNEEDED_MODULES)),
    ],
)
def test_start_up_imports_nothing_heavy(
    arguments: list[str | Path], unwanted_modules: tuple[str, ...]
) -> None:
    code = (
        "import sys; from kfmt_cli.__main__ import run; sys.argv = ['kfmt', *sys.argv[1:]]; run();"
        f"print(*(m for m in {unwanted_modules} if m in sys.modules), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        cwd=ROOT,
        env=environment(),
        check=True,
    )
    assert result.stderr.decode().split() == []


@pytest.mark.parametrize(
    ("arguments", "prefix", "expected"),
    [
        (["check", "d", "--only"], "crc-", "crc-mismatch"),
        (["check", "d", "--ignore"], "index-m", "index-missing"),
        (["explain"], "ret", "retention"),
        (["format"], "recordb", "RecordBatch"),
        (["state", "d", "--as-topic"], "__con", "__consumer_offsets"),
        (["dump", "d", "--value-format"], "av", "avro"),
        (["dump", "d", "--format"], "js", "json"),
    ],
)
def test_shells_complete_names(arguments: list[str], prefix: str, expected: str) -> None:
    completion = ShellComplete(commands, {}, "kfmt", "_KFMT_COMPLETE")
    assert expected in [item.value for item in completion.get_completions(arguments, prefix)]


def test_a_command_that_is_not_there_gets_a_suggestion() -> None:
    result = kfmt("dmup")
    assert result.code == 2
    assert "did you mean dump?" in result.err
    without_command = kfmt()
    assert (without_command.code, without_command.err) == (0, "")
    assert "Start here:" in without_command.out
    lines = without_command.out.splitlines()[1:]
    assert not [line for line in lines if line.endswith(("...", "…"))]


def test_names_of_findings_in_any_case_and_the_nearest() -> None:
    damaged = ROOT / "damaged_segments/flipped-bit-0"
    result = kfmt("check", "--only", "CRC-Mismatch", damaged, "--json")
    assert set(result.codes) == {"crc-mismatch"}
    for option in ("--only", "--ignore"):
        result = kfmt("check", option, "crc-mismach", damaged)
        assert (result.code, "did you mean crc-mismatch" in result.err) == (2, True)
    assert kfmt("explain", "CRC-Mismatch").out == kfmt("explain", "crc-mismatch").out


@pytest.mark.parametrize("command", ["check", "dump", "cat", "salvage", "export", "stat"])
def test_options_that_few_need_are_last(command: str) -> None:
    options = re.findall(r"^  (--[\w-]+)", kfmt(command, "--help").out, re.MULTILINE)
    assert options[-2:] == ["--rsm-private-key", "--max-decompressed"]


def test_columns_are_those_of_the_batch_table_only() -> None:
    for option in ("--records", "--json"):
        result = kfmt("dump", TXN, "--columns", "crc", option)
        assert (result.code, result.out) == (2, "")
        assert "--columns applies only to the batch table" in result.err


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (120, {"segments", "records", "bytes", "findings"}),
        (90, {"bytes", "findings"}),
        (78, {"findings"}),
        (70, set()),
    ],
)
def test_columns_go_from_a_narrow_table_in_this_order(columns: int, expected: set[str]) -> None:
    screen = plain(run_on_terminal("check", "damaged_segments/flipped-bit-0", columns=columns))
    (heading,) = [line for line in screen.splitlines() if line.startswith(" directory")]
    assert {*heading.split()} & {"segments", "records", "bytes", "findings"} == expected


def test_the_directory_above_has_its_own_name(tmp_path: Path) -> None:
    subdirectory = tmp_path / "txn-0/below"
    subdirectory.mkdir(parents=True)
    write(tmp_path / "txn-0", TXN.read_bytes(), TXN.name)
    (row, *_) = kfmt("check", "..", "--json", cwd=subdirectory).of("partition")
    assert (row["topic"], row["partition"], row["file"]) == ("txn", 0, str(tmp_path / "txn-0"))
