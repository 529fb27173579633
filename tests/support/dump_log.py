"""kafka-dump-log's text, parsed, and kfmt's rows in the same terms.

This module excludes known differences of the tool: it does not print the base offset of older
messages, and it decodes keys and payloads as UTF-8 with replacements, so only clean text is
compared.
"""

from __future__ import annotations

import re
from typing import Any

Row = dict[str, Any]

_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) "
    r"count: (?P<records_count>\d+) baseSequence: (?P<base_sequence>-?\d+) "
    r"lastSequence: (?P<last_sequence>-?\d+) producerId: (?P<producer_id>-?\d+) "
    r"producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) "
    r"isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+) "
    r"deleteHorizonMs: OptionalLong(\.empty|\[(?P<delete_horizon_ms>\d+)\]) "
    r"position: (?P<position>\d+) (?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) "
    r"size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<compression>\w+) "
    r"crc: (?P<crc>\d+) isvalid: (?P<crc_valid>\w+)"
)
_MESSAGE = re.compile(
    r"offset: (?P<last_offset>-?\d+) position: (?P<position>\d+) "
    r"(?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) size: (?P<size>\d+) magic: (?P<magic>\d) "
    r"compresscodec: (?P<compression>\w+) crc: (?P<crc>\d+) isvalid: (?P<crc_valid>\w+)"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r"( sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<header_keys>.*?)\](?= key: | payload: |"
    r" endTxnMarker: | LeaderChange: | SnapshotHeader | SnapshotFooter | KRaftVersion |"
    r" KRaftVoters | controlType: |$))?"
    r"( isValid: (?P<valid>\w+) crc: (?P<inner_crc>\d+)\}?)?"
    r"( endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+))?"
    r"(?P<rest>.*)$",
    re.DOTALL,
)
_CONTENT = re.compile(r"^( key: (?P<key>.*?))?( payload: (?P<payload>.*))?$", re.DOTALL)
_BOOLEANS = {"true": True, "false": False}


def parse(text: str) -> list[Row]:
    """The batches and records of the text, in order; digits become integers."""
    rows: list[Row] = []
    for line in _lines(text):
        for kind, pattern in (("batch", _BATCH), ("batch", _MESSAGE), ("record", _RECORD)):
            if match := pattern.match(line):
                rows.append({"kind": kind, **_values(match.groupdict())})
                break
        else:
            assert line.startswith(("Log starting offset", "Snapshot end", "KRaft bootstrap")), line
    return rows


def _lines(text: str) -> list[str]:
    """The rows' lines; line breaks inside payloads are part of a line."""
    lines: list[str] = []
    starts = ("| ", "baseOffset: ", "offset: ", "Log starting", "Snapshot end", "KRaft bootstrap")
    for line in text.split("\n"):
        if line.startswith(starts) or not lines:
            lines.append(line)
        elif line:
            lines[-1] += "\n" + line
    return lines


def _values(groups: dict[str, str | None]) -> Row:
    text_names = {"key", "payload", "rest", "header_keys"}
    values: Row = {}
    for name, text in groups.items():
        if name not in text_names and text is not None and re.fullmatch(r"-?\d+", text):
            values[name] = int(text)
        else:
            values[name] = _BOOLEANS.get(text, text) if text and name not in text_names else text
    return values


def tool_batch(row: Row) -> Row:
    """kfmt's batch in the tool's terms."""
    attributes = row["attributes"]
    legacy = row["magic"] < 2
    values = {
        "kind": "batch",
        "last_offset": row["last_offset"],
        "position": row["position"],
        "timestamp_type": attributes["timestamp_type"],
        "max_timestamp": -1 if row["max_timestamp"] is None else row["max_timestamp"],
        "size": row["size"],
        "magic": row["magic"],
        "compression": attributes["compression"],
        "crc": row["crc"],
        "crc_valid": row["crc_valid"],
    }
    if not legacy:
        names = (
            *("base_offset", "records_count", "base_sequence", "last_sequence", "producer_id"),
            *("producer_epoch", "partition_leader_epoch", "delete_horizon_ms"),
        )
        values |= {name: row[name] for name in names}
        values |= {name: attributes[name] for name in ("transactional", "control")}
    return values


def check(tool_row: Row, kfmt_row: Row) -> None:
    """Compare a row of the tool with kfmt's; raises AssertionError if they differ."""
    if tool_row["kind"] == "batch":
        assert tool_batch(kfmt_row) == tool_row
        return
    assert kfmt_row["type"] == "record"
    for name in ("offset", "timestamp_type", "key_size", "value_size"):
        assert kfmt_row[name] == tool_row[name], name
    assert (-1 if kfmt_row["timestamp"] is None else kfmt_row["timestamp"]) == tool_row["timestamp"]
    if tool_row["header_keys"] is not None:
        assert kfmt_row["sequence"] == tool_row["sequence"]
        assert ",".join(header["key"] for header in kfmt_row["headers"]) == tool_row["header_keys"]
    else:
        assert kfmt_row["headers"] is None
        assert kfmt_row["sequence"] is None
    if tool_row["marker"]:
        assert kfmt_row["control"] == {
            "type": tool_row["marker"],
            "version": 0,
            "coordinator_epoch": tool_row["coordinator_epoch"],
        }
    elif "control" not in kfmt_row:
        _check_content(tool_row["rest"], kfmt_row)


def _check_content(tool_content: str, kfmt_row: Row) -> None:
    """Compare keys and payloads if both are clean text."""
    texts = [kfmt_row[name] for name in ("key", "value") if kfmt_row[name] is not None]
    encoded = "key_encoding" in kfmt_row or "value_encoding" in kfmt_row
    if encoded or any(not text.replace("\n", "").isprintable() for text in texts):
        return
    expected = "" if kfmt_row["key"] is None else f" key: {kfmt_row['key']}"
    expected += "" if kfmt_row["value"] is None else f" payload: {kfmt_row['value']}"
    assert tool_content.rstrip("\n") == expected.rstrip("\n")
