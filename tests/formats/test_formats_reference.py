"""format, request-header, response-header, partition-of, and the teaching layout."""

from __future__ import annotations

import json
import random
import re
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.commands.format.command import find_layouts, iter_format_chapters
from kfmt_cli.commands.protocol_headers.command import header_row_members, iter_request_headers
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.formats.api_keys import API_BY_KEY, APIS
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.rows.types.format_entries import iter_format_entries
from tests.support.samples import kfmt
from tools.kafka import ROOT, java, missing

API_KEYS = json.loads((ROOT / "tests/reference/kafka_api_keys_4.4.json").read_text())

# The reference of the formats.


def test_every_format_is_shown_by_its_name_and_by_that_of_its_file() -> None:
    for chapter in iter_format_chapters():
        for layout in chapter.layouts:
            assert find_layouts(layout.name.lower()) == [layout]
            assert len(list(iter_format_entries(layout))) >= len(layout.fields)
    for name, expected in (
        (".index", "OffsetIndexEntry"),
        ("log", "RecordBatch"),
        ("__transaction_state", "TransactionLogKey"),
        ("partition.metadata", "PartitionMetadata"),
        ("record-batch", "RecordBatch"),
    ):
        assert find_layouts(f"*.{name}" if name == "log" else name)[0].name == expected
    rows = kfmt("format", "--json").rows
    assert len({row["name"] for row in rows}) == len(rows) > 100
    assert kfmt("format", "nothing").code == 2


def test_offsets_and_bits_of_a_format() -> None:
    rows = {row["field"]: row for row in kfmt("format", "recordbatch", "--json").rows}
    assert rows["records_count"]["offset"] == 57
    assert rows["attributes.compression"]["bits"] == "bits 0–2"
    assert rows["attributes.control"]["bits"] == "bit 5"
    row_by_field = {row["field"]: row for row in kfmt("format", "PartitionRecord", "--json").rows}
    assert row_by_field["eligible_leader_replicas"]["versions"] == "2+, nullable, tag 1"


# Headers of the protocol.


def test_the_table_of_requests_is_that_of_the_reference() -> None:
    assert [(api.key, api.name) for api in APIS] == [(key["key"], key["name"]) for key in API_KEYS]
    for entry in API_KEYS:
        api = API_BY_KEY[entry["key"]]
        assert api.is_removed == (not entry["headers"])
        for version, (request, response) in entry["headers"].items():
            version_number = int(version)
            assert api.first_version <= version_number <= api.last_version
            assert (
                api.request_header_version(version_number),
                api.response_header_version(version_number),
            ) == (
                request,
                response,
            )
        if entry["headers"]:
            versions = list(map(int, entry["headers"]))
            assert (api.first_version, api.last_version) == (min(versions), max(versions))


def request(key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    header_version = API_BY_KEY[key].request_header_version(version)
    values = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return layout_at_version(message_layout("RequestHeaderData"), header_version).encode_row(values)


def test_a_client_id_keeps_its_form_in_a_flexible_header() -> None:
    assert request(3, 9, 1, "kfmt") == bytes.fromhex("0003 0009 00000001 0004 6b666d74 00")
    assert request(3, 8, 1, None) == bytes.fromhex("0003 0008 00000001 ffff")


@given(st.data())
def test_every_request_is_recognised_in_a_stream(data: st.DataObject) -> None:
    expected = []
    stream = b""
    for _ in range(data.draw(st.integers(1, 5))):
        api = data.draw(st.sampled_from([api for api in APIS if not api.is_removed]))
        version = data.draw(st.integers(api.first_version, api.last_version))
        client_id = data.draw(st.none() | st.text(max_size=10))
        correlation_id = data.draw(st.integers(-(1 << 31), (1 << 31) - 1))
        header = request(api.key, version, correlation_id, client_id)
        message = header + data.draw(st.binary(max_size=30))
        stream += struct.pack(">i", len(message)) + message
        expected.append((api.key, api.name, version, correlation_id, client_id))
    rows = [header_row_members(request, stream) for request in iter_request_headers(stream, None)]
    assert [row["fault"] for row in rows] == [None] * len(expected)
    columns = ("request_api_key", "api_name", "request_api_version", "correlation_id", "client_id")
    assert [tuple(row.get(text) for text in columns) for row in rows] == expected


@given(st.binary(max_size=80), st.sampled_from([None, True, False]))
def test_any_bytes_are_answered(data: bytes, framed: bool | None) -> None:
    """Each byte belongs to one message, which has an error or the values of its bytes."""
    end = 0
    for header in iter_request_headers(data, framed):
        row = header_row_members(header, data)
        assert header.message_position == row["position"] == end
        end = header.message_end
        content = data[header.header_start : header.message_end]
        if header.declared_size is not None and header.header_start > header.message_position:
            assert len(content) == min(
                max(header.declared_size, 0), len(data) - header.header_start
            )
        if row["fault"] is None:
            key, version, correlation = struct.unpack_from(">hhi", content)
            assert (row["request_api_key"], row["request_api_version"]) == (key, version)
            assert row["correlation_id"] == correlation
            assert header.declared_size in (None, len(content))
        else:
            assert row["fault"]
    assert end == len(data) or (header.declared_size is not None and header.declared_size < 0)


def test_requests_of_a_captured_stream_are_listed(tmp_path: Path) -> None:
    messages = [request(3, 9, 1, "kfmt"), request(1, 4, 2, None), request(18, 3, 3, "kfmt") + b"x"]
    stream = b"".join(struct.pack(">i", len(message)) + message for message in messages)
    file = tmp_path / "captured"
    for content in (stream, stream.hex().encode(), stream.hex(" ").encode() + b"\n"):
        file.write_bytes(content)
        rows = kfmt("request-header", file, "--json").rows
        assert [row["api_name"] for row in rows] == ["Metadata", "Fetch", "ApiVersions"]
        assert [row["header_version"] for row in rows] == [2, 1, 2]
        assert [row["client_id"] for row in rows] == ["kfmt", None, "kfmt"]
    table = kfmt("request-header", file).out.splitlines()
    assert sum("kfmt" in line or "Fetch" in line for line in table) == 3
    file.write_bytes(stream[:-3])
    truncated = kfmt("request-header", file, "--json")
    assert truncated.code == 1
    assert truncated.rows[-1]["fault"] is not None


def test_the_header_version_of_an_unknown_request_is_unknown() -> None:
    """A later Kafka's request: its fields up to the client id are those of versions 1 and 2."""
    message = "0000000e 0063 0000 00000007 0003616263 00"
    (row,) = kfmt("request-header", message, "--json").rows
    assert (row["header_version"], row["request_api_key"], row["api_name"]) == (None, 99, None)
    assert (row["correlation_id"], row["client_id"], row["fault"]) == (7, "abc", None)
    text = kfmt("request-header", message).out
    assert "request header of unknown version" in text
    assert re.search("00 +rest +not decoded", text)


def test_a_header_alone_is_shown_byte_by_byte() -> None:
    header = request(3, 9, 7, "adm").hex()
    output = kfmt("request-header", header).out
    assert 'client_id                  "adm"' in output
    assert "Metadata" in output
    assert kfmt("request-header", f"0x{header}").out == output
    old_request = kfmt("request-header", "00070000000000 05".replace(" ", ""), "--json").rows[0]
    assert (
        old_request["api_name"],
        old_request["header_version"],
        old_request["correlation_id"],
    ) == (*("ControlledShutdown", 0, 5),)


def test_response_headers() -> None:
    (first_version,) = kfmt("response-header", "00000007", "--json").rows
    assert (first_version["correlation_id"], first_version["header_version"]) == (7, 0)
    flexible_version = ("--api", "Metadata", "--api-version", "12")
    (row,) = kfmt("response-header", "0000000700", *flexible_version, "--json").rows
    assert (row["correlation_id"], row["header_version"], row["tagged_fields"]) == (7, 1, {})
    framed = kfmt("response-header", "00000005000000070000000006000000080001", "--json").rows
    assert [row["correlation_id"] for row in framed] == [7, 8]
    versions = ("--api", "18", "--api-version", "4")
    assert kfmt("response-header", "00000007", *versions, "--json").rows[0]["header_version"] == 0
    assert kfmt("response-header", "00000007", "--api", "Nothing", "--api-version", "1").code == 2
    assert kfmt("response-header", "00000007", "--api", "Fetch").code == 2
    assert kfmt("response-header", "0000").code == 1


# The teaching layout.

VALUE = b"this is the first message"
NOTE = struct.pack(">qbbi", zlib.crc32(VALUE), 0, 1, 5) + b"first" + struct.pack(">i", 25) + VALUE


def test_the_example_of_the_teaching_layout(tmp_path: Path) -> None:
    assert (len(NOTE), zlib.crc32(VALUE)) == (48, 4252115574)
    file = tmp_path / "note"
    file.write_bytes(NOTE)
    (row,) = kfmt("dump", file, "--layout", "notes-v0", "--json").rows
    assert row == {
        "type": "notes_message",
        "file": str(file),
        "position": 0,
        "size": 48,
        "crc": 4252115574,
        "crc_valid": True,
        "magic": 0,
        "attributes": 1,
        "compression": "gzip",
        "key_size": 5,
        "key": "first",
        "value_size": 25,
        "value": "this is the first message",
    }
    assert kfmt("verify-crc", file, "--layout", "notes-v0").code == 0
    line = {"key": "first", "value": VALUE.decode(), "attributes": 1}
    result = kfmt(
        "build", "-", tmp_path / "out", "--layout", "notes-v0", stdin=json.dumps(line).encode()
    )
    assert result.code == 0
    assert (tmp_path / "out/notes-v0.bin").read_bytes() == NOTE
    dumped = kfmt("dump", file, "--layout", "notes-v0", "--json").out.encode()
    kfmt("build", "-", tmp_path / "again", "--layout", "notes-v0", stdin=dumped)
    assert (tmp_path / "again/notes-v0.bin").read_bytes() == NOTE


def test_damage_in_the_teaching_layout(tmp_path: Path) -> None:
    file = tmp_path / "note"
    corrupt = bytearray(NOTE)
    corrupt[-1] ^= 1
    file.write_bytes(NOTE + corrupt + NOTE)
    for command in ("dump", "verify-crc"):
        result = kfmt(command, file, "--layout", "notes-v0", "--json")
        assert (result.code, result.codes) == (1, ["notes-crc-mismatch"])
    assert result.of("file")[0]["records"] == 3
    file.write_bytes(corrupt * 3)
    result = kfmt("verify-crc", file, "--layout", "notes-v0", "--max-findings", "2", "--json")
    assert (len(result.codes), result.of("file")[0]["errors"]) == (2, 3)
    rng = random.Random(3)
    for _ in range(30):
        file.write_bytes(NOTE[: rng.randrange(1, 48)])
        result = kfmt("dump", file, "--layout", "notes-v0", "--json")
        assert (result.code, result.codes) == (1, ["notes-malformed"])


def test_null_and_empty_differ_in_the_teaching_layout(tmp_path: Path) -> None:
    lines = b'{"key":null,"value":""}\n\n{"key":"","value":null}\n'
    kfmt("build", "-", tmp_path / "out", "--layout", "notes-v0", stdin=lines)
    rows = kfmt("dump", tmp_path / "out/notes-v0.bin", "--layout", "notes-v0", "--json").rows
    assert [(row["key"], row["value"]) for row in rows] == [(None, ""), ("", None)]
    assert [(row["key_size"], row["value_size"]) for row in rows] == [(-1, 0), (0, -1)]
    invalid = kfmt("build", "-", tmp_path / "x", "--layout", "notes-v0", stdin=b'{"kee":1}\n')
    assert invalid.code == 2
    assert "line 1" in invalid.err
    assert not (tmp_path / "x").exists()


# Where the coordinators keep an id, as Kafka computes it.

PARTITIONS = """
import org.apache.kafka.common.utils.Utils;
public class Partitions {
    public static void main(String[] ids) {
        for (String id : ids) System.out.println(Utils.abs(id.hashCode()) % 50);
    }
}
"""


@pytest.mark.interop
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_partitions_are_those_that_kafka_computes(tmp_path: Path) -> None:
    (tmp_path / "Partitions.java").write_text(PARTITIONS)
    rng = random.Random(7)
    characters = "abcXYZ019-_.äß漢😀"
    ids = ["".join(rng.choices(characters, k=rng.randrange(1, 30))) for _ in range(300)]
    ids.append("polygenelubricants")
    command = java("3.9.1", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8")
    command += [str(tmp_path / "Partitions.java"), *ids]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    arguments = [text for name in ids for text in ("--group", name)]
    actual = [row["partition"] for row in kfmt("partition-of", *arguments, "--json").rows]
    assert actual == list(map(int, result.stdout.split()))
