"""format, request-header, response-header, partition-of, and the teaching layout."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfmt_cli.commands.format.command import find_layouts, format_chapters
from kfmt_cli.commands.protocol_headers.command import header_values, iter_request_headers
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.formats.api_keys import API_BY_KEY, APIS
from kfmt_cli.formats.kafka_messages import message_layout
from kfmt_cli.rows.types.format_entries import iter_format_entries
from tests.support.samples import kfmt
from tools.kafka import ROOT, java, missing

API_KEYS = json.loads((ROOT / "tests/reference/kafka_api_keys_4.2.json").read_text())

# The reference of the formats.


def test_every_format_is_shown_by_its_name_and_by_that_of_its_file() -> None:
    for chapter in format_chapters():
        for layout in chapter.layouts:
            assert find_layouts(layout.name.lower()) == [layout]
            assert len(list(iter_format_entries(layout))) >= len(layout.fields)
    for name, first in (
        (".index", "OffsetIndexEntry"),
        ("log", "RecordBatch"),
        ("__transaction_state", "TransactionLogKey"),
        ("partition.metadata", "PartitionMetadata"),
        ("record-batch", "RecordBatch"),
    ):
        assert find_layouts(f"*.{name}" if name == "log" else name)[0].name == first
    rows = kfmt("format", "--json").rows
    assert len({row["name"] for row in rows}) == len(rows) > 100
    assert kfmt("format", "nothing").code == 2


def test_offsets_and_bits_of_a_format() -> None:
    rows = {row["field"]: row for row in kfmt("format", "recordbatch", "--json").rows}
    assert rows["records_count"]["offset"] == 57
    assert rows["attributes.compression"]["bits"] == "bits 0–2"
    assert rows["attributes.control"]["bits"] == "bit 5"
    value = {row["field"]: row for row in kfmt("format", "PartitionRecord", "--json").rows}
    assert value["eligible_leader_replicas"]["versions"] == "2+, nullable, tag 1"


# Headers of the protocol.


def test_the_table_of_requests_is_that_of_the_reference() -> None:
    assert [(api.key, api.name) for api in APIS] == [(key["key"], key["name"]) for key in API_KEYS]
    for its in API_KEYS:
        api = API_BY_KEY[its["key"]]
        assert api.is_removed == (not its["headers"])
        for version, (request, response) in its["headers"].items():
            number = int(version)
            assert api.first_version <= number <= api.last_version
            assert (api.request_header_version(number), api.response_header_version(number)) == (
                request,
                response,
            )
        if its["headers"]:
            versions = list(map(int, its["headers"]))
            assert (api.first_version, api.last_version) == (min(versions), max(versions))


def request(key: int, version: int, correlation: int, client: str | None) -> bytes:
    header = API_BY_KEY[key].request_header_version(version)
    values = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": correlation,
        "client_id": client,
    }
    return layout_at_version(message_layout("RequestHeaderData"), header).write(values)


def test_a_client_id_keeps_its_form_in_a_flexible_header() -> None:
    assert request(3, 9, 1, "kfmt") == bytes.fromhex("0003 0009 00000001 0004 6b666d74 00")
    assert request(3, 8, 1, None) == bytes.fromhex("0003 0008 00000001 ffff")


@given(st.data())
def test_every_request_is_recognised_in_a_stream(data: st.DataObject) -> None:
    sent = []
    stream = b""
    for _ in range(data.draw(st.integers(1, 5))):
        api = data.draw(st.sampled_from([api for api in APIS if not api.is_removed]))
        version = data.draw(st.integers(api.first_version, api.last_version))
        client = data.draw(st.none() | st.text(max_size=10))
        correlation = data.draw(st.integers(-(1 << 31), (1 << 31) - 1))
        header = request(api.key, version, correlation, client)
        message = header + data.draw(st.binary(max_size=30))
        stream += struct.pack(">i", len(message)) + message
        sent.append((api.key, api.name, version, correlation, client))
    rows = [header_values(request, stream) for request in iter_request_headers(stream, None)]
    assert [row["fault"] for row in rows] == [None] * len(sent)
    shown = ("request_api_key", "api_name", "request_api_version", "correlation_id", "client_id")
    assert [tuple(row.get(text) for text in shown) for row in rows] == sent


@given(st.binary(max_size=80), st.sampled_from([None, True, False]))
def test_any_bytes_are_answered(data: bytes, framed: bool | None) -> None:
    """Each byte belongs to one message, and each has a fault or says what its bytes say."""
    end = 0
    for header in iter_request_headers(data, framed):
        row = header_values(header, data)
        assert header.message_position == row["position"] == end
        end = header.message_end
        own = data[header.header_start : header.message_end]
        if header.declared_size is not None and header.header_start > header.message_position:
            assert len(own) == min(max(header.declared_size, 0), len(data) - header.header_start)
        if row["fault"] is None:
            key, version, correlation = struct.unpack_from(">hhi", own)
            assert (row["request_api_key"], row["request_api_version"]) == (key, version)
            assert row["correlation_id"] == correlation
            assert header.declared_size in (None, len(own))
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
    cut = kfmt("request-header", file, "--json")
    assert cut.code == 1
    assert cut.rows[-1]["fault"] is not None


def test_a_header_alone_is_shown_byte_by_byte() -> None:
    header = request(3, 9, 7, "adm").hex()
    out = kfmt("request-header", header).out
    assert 'client_id                  "adm"' in out
    assert "Metadata" in out
    assert kfmt("request-header", f"0x{header}").out == out
    old = kfmt("request-header", "00070000000000 05".replace(" ", ""), "--json").rows[0]
    assert (old["api_name"], old["header_version"], old["correlation_id"]) == (
        *("ControlledShutdown", 0, 5),
    )


def test_response_headers() -> None:
    (plain,) = kfmt("response-header", "00000007", "--json").rows
    assert (plain["correlation_id"], plain["header_version"]) == (7, 0)
    flexible = ("--api", "Metadata", "--api-version", "12")
    (row,) = kfmt("response-header", "0000000700", *flexible, "--json").rows
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
    done = kfmt(
        "build", "-", tmp_path / "out", "--layout", "notes-v0", stdin=json.dumps(line).encode()
    )
    assert done.code == 0
    assert (tmp_path / "out/notes-v0.bin").read_bytes() == NOTE
    dumped = kfmt("dump", file, "--layout", "notes-v0", "--json").out.encode()
    kfmt("build", "-", tmp_path / "again", "--layout", "notes-v0", stdin=dumped)
    assert (tmp_path / "again/notes-v0.bin").read_bytes() == NOTE


def test_damage_in_the_teaching_layout(tmp_path: Path) -> None:
    file = tmp_path / "note"
    flipped = bytearray(NOTE)
    flipped[-1] ^= 1
    file.write_bytes(NOTE + flipped + NOTE)
    for command in ("dump", "verify-crc"):
        done = kfmt(command, file, "--layout", "notes-v0", "--json")
        assert (done.code, done.codes) == (1, ["notes-crc-mismatch"])
    assert done.of("file")[0]["records"] == 3
    file.write_bytes(flipped * 3)
    done = kfmt("verify-crc", file, "--layout", "notes-v0", "--max-findings", "2", "--json")
    assert (len(done.codes), done.of("file")[0]["errors"]) == (2, 3)
    some = random.Random(3)
    for _ in range(30):
        file.write_bytes(NOTE[: some.randrange(1, 48)])
        done = kfmt("dump", file, "--layout", "notes-v0", "--json")
        assert (done.code, done.codes) == (1, ["notes-malformed"])


def test_null_and_empty_differ_in_the_teaching_layout(tmp_path: Path) -> None:
    lines = b'{"key":null,"value":""}\n\n{"key":"","value":null}\n'
    kfmt("build", "-", tmp_path / "out", "--layout", "notes-v0", stdin=lines)
    rows = kfmt("dump", tmp_path / "out/notes-v0.bin", "--layout", "notes-v0", "--json").rows
    assert [(row["key"], row["value"]) for row in rows] == [(None, ""), ("", None)]
    assert [(row["key_size"], row["value_size"]) for row in rows] == [(-1, 0), (0, -1)]
    wrong = kfmt("build", "-", tmp_path / "x", "--layout", "notes-v0", stdin=b'{"kee":1}\n')
    assert wrong.code == 2
    assert "line 1" in wrong.err
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
    some = random.Random(7)
    letters = "abcXYZ019-_.äß漢😀"
    ids = ["".join(some.choices(letters, k=some.randrange(1, 30))) for _ in range(300)]
    ids.append("polygenelubricants")
    command = java("3.9.1", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8")
    command += [str(tmp_path / "Partitions.java"), *ids]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )
    arguments = [text for name in ids for text in ("--group", name)]
    ours = [row["partition"] for row in kfmt("partition-of", *arguments, "--json").rows]
    assert ours == list(map(int, done.stdout.split()))
