"""`kfmt hex`: every byte of a batch, an entry or a small file is shown once, next to its field."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.core.codecs.decompress import decompress
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.log.anatomy.other_files import file_anatomy
from kfmt_cli.rows.types.anatomy import FIELD_ROW, anatomy_cells, anatomy_lines
from tests.support.samples import ORDERS, TXN, Row, every_log, kfmt, sample_name
from tests.support.terminal import run_on_terminal
from tools.kafka import ROOT, SAMPLES

LOGS = [path for path in every_log() if path.stat().st_size]
OTHER_FILES = sorted(
    path
    for path in SAMPLES.rglob("*")
    if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot", ".metadata", ".properties")
    or path.name.endswith("-checkpoint")
)
DAMAGED = ROOT / "damaged_segments"


def fields(*arguments: str | Path) -> list[Row]:
    return kfmt("hex", *arguments, "--json").of("field")


def joined_bytes(rows: list[Row]) -> bytes:
    """The bytes of the fields, which must be contiguous."""
    stored_fields = [row for row in rows if row["hex"] is not None]
    position = stored_fields[0]["position"]
    for row in stored_fields:
        assert row["position"] == position, row
        position += row["size"]
    return bytes.fromhex("".join(row["hex"] for row in stored_fields))


@pytest.mark.parametrize("log", LOGS, ids=sample_name)
def test_every_byte_of_a_batch_is_shown_once(log: Path) -> None:
    data = log.read_bytes()
    batches = kfmt("dump", log, "--json").of("batch")
    for entry in {0, len(batches) - 1}:
        batch = batches[entry]
        rows = fields(log, "--entry", str(entry))
        start = batch["position"]
        outer_rows = [row for row in rows if row["inside"] is None]
        assert joined_bytes(outer_rows) == data[start : start + batch["size"]]
        inner_rows = [row for row in rows if row["inside"] is not None]
        codec = batch["attributes"]["compression"]
        assert bool(inner_rows) == (codec != "none" and batch["records_count"] != 0)
        if inner_rows:
            (block_start,) = {row["block_position"] for row in inner_rows}
            compressed = data[block_start : start + batch["size"]]
            assert joined_bytes(inner_rows) == decompress(
                codec, compressed, 1 << 26, batch["magic"]
            )
        assert not [row for row in rows if row["fault"]]


def test_every_byte_of_another_file_is_shown_once() -> None:
    names = [column.name for column in FIELD_ROW.columns]
    for file in OTHER_FILES:
        section = file_anatomy(classify_file(str(file), file.name), None, None)
        lines = [line for node in section.nodes for line in anatomy_lines(node)]
        rows = [
            dict(zip(names, anatomy_cells(line, section.data, 0, ""), strict=True))
            for line in lines
        ]
        assert (joined_bytes(rows) if rows else b"") == file.read_bytes(), file
    assert len(OTHER_FILES) > 200


def test_a_record_is_found_by_its_offset() -> None:
    rows = fields(ORDERS, "--offset", "25", "--alone")
    record_fields = [row for row in rows if row["path"].startswith("record 5.")]
    assert {row["path"].split(".")[1] for row in record_fields} >= {
        "length",
        "key",
        "value",
        "headers_count",
    }
    (delta,) = [row for row in record_fields if row["path"] == "record 5.offset_delta"]
    assert (delta["value"], delta["meaning"]) == (5, "→ offset 25")
    dumped = kfmt("dump", ORDERS, "--records", "--json", "--from-offset", "25", "--to-offset", "25")
    (record,) = dumped.of("record")
    (length,) = [row for row in record_fields if row["path"] == "record 5.length"]
    assert length["position"] == record["position"]
    assert rows[0]["position"] == dumped.of("batch")[0]["position"]


def test_a_byte_belongs_to_its_batch() -> None:
    batches = kfmt("dump", TXN, "--json").of("batch")
    for batch in batches[:5]:
        for position in (batch["position"], batch["position"] + batch["size"] - 1):
            rows = fields(TXN, "--position", str(position))
            assert rows[0]["position"] == batch["position"]
            assert rows[0]["value"] == batch["base_offset"]


def test_a_wrong_checksum_is_marked() -> None:
    file = next((DAMAGED / "flipped-bit-0").glob("*.log"))
    result = kfmt("hex", file, "--entry", "3", "--color", "always")
    assert result.code == 1
    assert "\x1b[1;31m" in result.out
    assert "✗ CRC-32C of bytes 1e2b..27f0 is e74b9739" in result.out
    assert "crc-mismatch" in result.err


def test_a_length_that_the_reader_mends_is_shown_as_it_is() -> None:
    file = next((DAMAGED / "length-too-big-0").glob("*.log"))
    rows = fields(file, "--entry", "3")
    (length,) = [row for row in rows if row["path"] == "batch_length"]
    assert (length["value"], length["hex"]) == ((1 << 31) - 1, "7fffffff")
    assert length["meaning"] == "✗ should be 2511, according to the checksum"


def test_a_truncated_batch_is_shown_up_to_its_end() -> None:
    file = next((DAMAGED / "truncated-0").glob("*.log"))
    result = kfmt("hex", file, "--position", "7702")
    assert result.code == 1
    assert "byte 7702 is not inside any batch" in result.out
    assert "✗ record 3 › value: a length of" in result.out or "are left" in result.out
    assert "batch-truncated" in result.err
    rows = kfmt("hex", file, "--position", "7702", "--json").of("field")
    assert joined_bytes(rows) == file.read_bytes()[7702:]


def test_a_wrong_size_of_an_old_message_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    log = SAMPLES / "kafka-0.8.2.2/real08-gzip-0/00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[8] = 1
    (tmp_path / log.name).write_bytes(content)
    result = kfmt("hex", tmp_path / log.name, "--entry", "0", "--json")
    field_by_name = {row["path"].rpartition(".")[2]: row for row in reversed(result.of("field"))}
    size = field_by_name["message_size"]
    assert size["hex"] == content[8:12].hex()
    assert size["value"] >> 24 == 1
    assert size["meaning"].startswith(
        f"✗ should be {size['value'] & 0xFFFFFF}, according to the checksum"
    )
    assert field_by_name["crc"]["meaning"].startswith("✓")
    assert field_by_name["key"]["hex"] == "ffffffff"


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_damage_never_ends_in_a_crash(data: st.DataObject) -> None:
    import tempfile

    log = data.draw(st.sampled_from(LOGS))
    content = bytearray(log.read_bytes()[:4000])
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / log.name
        file.write_bytes(content)
        for selector in (["--entry", "0"], ["--position", str(data.draw(st.integers(0, 4000)))]):
            result = kfmt("hex", file, *selector, "--json")
            assert result.code in (0, 1, 3)
            for row in result.of("field"):
                start = row["position"]
                if row["inside"] is None and row["hex"]:
                    assert row["hex"] == content[start : start + row["size"]].hex()


def test_lines_fit_the_screen() -> None:
    for width in (60, 80, 160):
        output = run_on_terminal("hex", TXN, "--entry", "2", "--color", "never", columns=width)
        lines = output.splitlines()
        assert len(lines) > 20
        assert max(map(len, lines)) <= width


def test_wrong_usage(tmp_path: Path) -> None:
    assert kfmt("hex", ORDERS, "--offset", "1", "--entry", "2").code == 2
    assert kfmt("hex", ORDERS, "--alone").code == 2
    assert kfmt("hex", ORDERS.with_suffix(".index"), "--offset", "1").code == 2
    assert kfmt("hex", ORDERS.with_suffix(".index"), "--entry", "999").code == 1
    second_log = ORDERS.with_name("00000000000000000240.log")
    for offset in ("5", "-1", "480"):
        assert kfmt("hex", second_log, "--offset", offset).code == 1
    assert kfmt("hex", ORDERS.parent).code == 2
    assert kfmt("hex", tmp_path / "nothing").code == 3
    assert kfmt("hex", ORDERS, "--offset", "99999").code == 1
    assert kfmt("hex", ORDERS, "--entry", "99999").code == 1
    assert kfmt("hex", ORDERS, "--position", "99999999").code == 1


@pytest.mark.parametrize("n_bytes", [1, 16, 17, 61])
def test_bytes_that_are_not_a_batch_may_be_fewer_than_its_header(
    n_bytes: int, tmp_path: Path
) -> None:
    log = tmp_path / ORDERS.name
    data = ORDERS.read_bytes()
    log.write_bytes(data + data[:n_bytes])
    result = kfmt("hex", log, "--position", str(len(data)))
    assert result.code == 1
    assert f"byte {len(data)}" in result.out + result.err
