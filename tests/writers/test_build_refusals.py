"""What build refuses, with which message, and that it writes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfmt_cli.writers.build import jsonl
from tests.support.samples import kfmt
from tests.writers.test_build import lines, rows


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"value":1}\n', "line 1: Expected `str | null`, got `int` - at `$.value`"),
        (b'{"value":"a"}\n\n{"value":\n', "line 3"),
        (b"[]\n", "line 1: Expected `object`, got `array`"),
        (b'{"type":"batch","records_count":3}\n', "dump with --records"),
        (b'{"type":"offset_index_entry"}\n', "only batch and record lines"),
        (b'{"value":"zz","value_encoding":"base64"}\n', "not base64"),
        (b'{"value":"a","value_encoding":"utf8-replaced"}\n', "cannot be converted back"),
        (b'{"value":"a","offset":99999999999999999999}\n', "offset"),
        (b'{"control":{"type":"NONSENSE"}}\n', "NONSENSE"),
        (b'{"value":"a","timestamp_type":"Never"}\n', "Never"),
        (b'{"type":"batch","magic":3}\n{"value":"a"}\n', "magic 3"),
        (
            b'{"type":"batch","magic":1}\n{"value":"a","headers":[{"key":"k"}]}\n',
            "have no headers",
        ),
        (
            b'{"type":"batch","base_offset":9}\n{"value":"a","offset":3}\n',
            "line 2: offset 3 is before its batch's base_offset 9",
        ),
        (
            b"""{"type":"batch","base_offset":0}
{"type":"batch","base_offset":4}
{"offset":4}
{"type":"batch","base_offset":9}
{"offset":8}
{"offset":9}
""",
            "line 5: offset 8 is before its batch's base_offset 9",
        ),
        # Empty lines count as lines, too.
        (b'\n{"value":"a"}\n\n \n{"value":"b","timestamp_type":"No"}\n', "line 5: "),
        (b'{"type":"batch","base_offset":9}\n\n{"offset":3}', "line 3: offset 3 is before"),
        (b'\n\n{"type":"batch","base_offset":9}\n{"offset":3}\n\n', "line 4: offset 3 is before"),
        (b'{"type":"batch","attributes":{"raw":5}}\n', "codec 5 does not exist"),
        (b'{"type":"batch","attributes":{"raw":65536}}\n', "do not fit in 16 bits"),
        (
            b'{"control":{"type":"COMMIT","coordinator_epoch":99999999999},"producer_id":7}\n',
            "too large",
        ),
        (b'{"value":"a","file":"a\\u0000b/00000000000000000000.log"}\n', "is not a file name"),
        (b'{"value":"a","transactional":true}\n', "has no producer_id"),
        (b'{"value":"a","offset":-5}\n', "offset -5 is negative"),
        # Every field of a line must be known.
        (b'{"vlaue":"x"}\n', "unknown field `vlaue`"),
        (b'{"type":"record","value":"x","base_offset":3}\n', "unknown field `base_offset`"),
        (b'{"value":"x","headers":[{"key":"k","valeu":"v"}]}\n', "unknown field `valeu`"),
        (b'{"value":"a","value":"b"}\n', "duplicate key 'value' in one object"),
        (b'{"value":"a"}{"value":"b"}\n', "line 1: JSON is malformed: trailing characters"),
        (b'{"value":\n"a"}\n', "line 1: Input data was truncated"),
        (b'{"value":"a", "value" :"b"}\n', "duplicate key 'value' in one object"),
        (b'{"value":"a","v\\u0061lue":"b"}\n', "duplicate key 'value' in one object"),
        (b'{"headers":[{"key":"a","key":"b"}]}\n', "duplicate key 'key' in one object"),
        # The same keys in the same order as a line before, but not in the same objects.
        (
            b"""{"headers":[{"key":"a","value":"b"}]}
{"value":"v","headers":[{"key":"a","value":"b"}]}
{"value":"v","headers":[{"key":"a"}],"value":"b"}
""",
            "line 3: duplicate key 'value' in one object",
        ),
        (
            b'{"type":"batch","attributes":{"raw":0,"raw":8}}\n{"type":"record"}\n',
            "duplicate key 'raw' in one object",
        ),
        (
            b'{"type":"batch","attributes":{"compression":"brotli"}}\n',
            "'brotli': choose from none, gzip",
        ),
        (b'{"type":"batch","attributes":{"timestamp_type":"x"}}\n', "'x': choose from CreateTime"),
        (
            b'{"offset":3}\n{"offset":3}\n',
            "line 2: offset 3 is not greater than the previous offset 3",
        ),
        (
            b'{"offset":3}\n{"offset":2}\n',
            "line 2: offset 2 is not greater than the previous offset 3",
        ),
        (
            b'{"offset":9223372036854775807}\n',
            "line 1: offset 9223372036854775807 leaves no room for the next offset",
        ),
        (
            b'{"type":"batch","base_offset":3}\n{"offset":3}\n{"offset":3}\n',
            "line 3: offset 3 is not greater than the previous offset 3",
        ),
        (
            b'{"type":"batch","last_offset_delta":9}\n{}\n{"type":"batch","base_offset":9}\n{}\n',
            "line 3: base_offset 9 is not greater than the previous offset 9",
        ),
        (
            b'{"type":"batch","base_offset":0}\n{"offset":0}\n{"offset":3000000000}\n',
            "line 3: offset 3000000000 is more than",
        ),
        (b'{"file":"%020d.log","offset":3}\n' % 9, "offset 3 is before the segment's base"),
        (
            b'{"type":"batch","file":"%020d.log","base_offset":3000000000}\n{"value":"x"}\n' % 0,
            "does not fit in the index",
        ),
        (
            b'{"file":"%020d.log"}\n{"file":"%020d.log"}\n{"file":"%020d.log","offset":8}\n'
            % (0, 5, 0),
            "line 3: lines of 00000000000000000000.log must be contiguous",
        ),
        (b'{"value":"YR==","value_encoding":"base64"}\n', "non-canonical base64"),
        (b'{"value":"YQ","value_encoding":"base64"}\n', "not base64"),
        (
            b'{"value":"00 ff","value_encoding":"hex"}\n',
            "hexadecimal digits must not contain spaces",
        ),
        (b'{"type":"batch"}\n{"value":"x","producer_id":3}\n', "belongs in the batch line"),
        (b'{"type":"batch","magic":1,"producer_id":3}\n{"value":"x"}\n', "support no producers"),
    ],
)
def test_invalid_lines_are_reported_and_nothing_is_written(
    data: bytes, message: str, tmp_path: Path
) -> None:
    skipped_lines = b'{"type":"finding","code":"crc-mismatch"}\n\n'
    line_number = message.split()[1].rstrip(":") if message.startswith("line ") else None
    for prefix, shift in ((b"", 0), (skipped_lines, 2)):
        result = kfmt("build", "-", tmp_path / "out", stdin=prefix + data)
        assert result.code == 2
        assert (message if line_number is None else message.partition(": ")[2]) in result.err
        if line_number is None:
            assert re.search(r"line [1-9]\d*: ", result.err), result.err
        else:
            assert f"line {int(line_number) + shift}: " in result.err
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--transactional"], "--transactional needs --producer-id"),
        (["--magic", "0", "--timestamp-type", "LogAppendTime"], "magic 0 has no timestamps"),
        (["--magic", "0", "--compression", "zstd"], "magic 0 supports neither producers nor zstd"),
        (["--magic", "1", "--producer-id", "1"], "magic 1 supports neither producers nor zstd"),
        (["--magic", "1", "--timestamp-type", "LogAppendTime"], ""),
        (["--magic", "0", "--timestamp-type", "CreateTime"], ""),
        (["--magic", "0", "--compression", "gzip"], ""),
        (["--magic", "2", "--compression", "zstd", "--producer-id", "0", "--transactional"], ""),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: list[str], message: str, tmp_path: Path
) -> None:
    result = kfmt("build", "-", tmp_path / "out", *options, stdin=b'{"value":"a"}\n')
    assert result.code == (2 if message else 0)
    assert message in result.err
    assert (tmp_path / "out").exists() == (not message)


def test_an_input_without_records_is_unreadable(tmp_path: Path) -> None:
    result = kfmt("build", "-", tmp_path / "out", stdin=b"\n")
    assert result.code == 3
    assert "contains no records" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_lines", [1, 9000])
def test_the_line_that_is_wrong_is_found_among_many(n_lines: int, tmp_path: Path) -> None:
    valid_lines = b'{"type":"record","value":"a \\":b"}\n\n' * n_lines
    for invalid_line in (
        b'{"value":1}',
        b'{"vlaue":""}',
        b'{"value":"","value":""}',
        b'{"offset":-1}',
    ):
        result = kfmt(
            "build", "-", tmp_path / "out", stdin=valid_lines + invalid_line + b"\n" + valid_lines
        )
        assert result.code == 2
        assert f"line {2 * n_lines + 1}: " in result.err, result.err


def test_a_line_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 1 << 20)
    source = tmp_path / "lines"
    source.write_text('{"value":"a"}\n\n{"value":"' + "x" * (1 << 21) + '"}\n')
    with pytest.raises(jsonl.LineError, match="line 3: longer than 1048576 bytes"):
        list(jsonl.read_lines(str(source)))


def test_existing_files_are_kept_without_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert kfmt("build", "-", out, stdin=b'{"value":"first"}\n').code == 0
    refused = kfmt("build", "-", out, stdin=b'{"value":"second"}\n')
    assert refused.code == 2
    assert "--force" in refused.err
    assert rows(out)[1]["value"] == "first"
    assert kfmt("build", "-", out, "--force", stdin=b'{"value":"second"}\n').code == 0
    assert rows(out)[1]["value"] == "second"
    assert not list(tmp_path.rglob("*kfmt*"))


@pytest.mark.parametrize("file", ["../{}", "/{}", "a/../{}", "./{}", "../../x/../{}"])
def test_nothing_is_written_or_moved_outside_of_the_target(file: str, tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir()
    (root / "important.txt").write_text("mine")
    name = file.format("00000000000000000003.log")
    data = lines({"value": "x", "file": name, "offset": 3})
    for more_lines in (
        b"",
        lines({"value": "y", "file": "a-0/00000000000000000000.log", "offset": 0}),
    ):
        result = kfmt("build", "-", root / "out", "--force", stdin=data + more_lines)
        assert result.code == 0, result.err
        assert {path.name for path in root.iterdir()} == {"important.txt", "out"}
        assert {path.name for path in tmp_path.iterdir()} == {"home"}
    assert (root / "important.txt").read_text() == "mine"


def test_the_teaching_layout_is_not_compressed(tmp_path: Path) -> None:
    line = b'{"value":"a","compression":"gzip"}'
    result = kfmt("build", "-", tmp_path / "out", "--layout", "notes-v0", stdin=line)
    assert result.code == 2
    assert "line 1: compression 'gzip' contradicts attributes 0" in result.err
    assert not (tmp_path / "out").exists()
    line = b'{"value":"a","compression":"none"}'
    assert kfmt("build", "-", tmp_path / "out", "--layout", "notes-v0", stdin=line).code == 0
