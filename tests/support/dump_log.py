"""kafka-dump-log's text, parsed, and kfmt's rows in the same words.

Known differences of the tool are kept out here: it prints the base offset of no older message, and
it decodes keys and payloads as UTF-8 with replacements, so only clean text is compared.
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
    r" endTxnMarker: | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters |"
    r" controlType: |$))?"
    r"( isValid: (?P<valid>\w+) crc: (?P<inner_crc>\d+)\}?)?"
    r"( endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+))?"
    r"(?P<rest>.*)$",
    re.DOTALL,
)
_CONTENT = re.compile(r"^( key: (?P<key>.*?))?( payload: (?P<payload>.*))?$", re.DOTALL)
_WORDS = {"true": True, "false": False}


def parse(text: str) -> list[Row]:
    """The batches and records of the text, in order; values as numbers where they are."""
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
    """Lines, with the line breaks inside payloads put back."""
    lines: list[str] = []
    starts = ("| ", "baseOffset: ", "offset: ", "Log starting", "Snapshot end", "KRaft bootstrap")
    for line in text.split("\n"):
        if line.startswith(starts) or not lines:
            lines.append(line)
        elif line:
            lines[-1] += "\n" + line
    return lines


def _values(found: dict[str, str | None]) -> Row:
    kept_words = {"key", "payload", "rest", "header_keys"}
    values: Row = {}
    for name, word in found.items():
        if name not in kept_words and word is not None and re.fullmatch(r"-?\d+", word):
            values[name] = int(word)
        else:
            values[name] = _WORDS.get(word, word) if word and name not in kept_words else word
    return values


def batch_of(row: Row) -> Row:
    """kfmt's batch in the tool's words."""
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


def check(theirs: Row, ours: Row) -> None:
    """Compare a row of the tool's with kfmt's; raises AssertionError."""
    if theirs["kind"] == "batch":
        assert batch_of(ours) == theirs
        return
    assert ours["type"] == "record"
    for name in ("offset", "timestamp_type", "key_size", "value_size"):
        assert ours[name] == theirs[name], name
    assert (-1 if ours["timestamp"] is None else ours["timestamp"]) == theirs["timestamp"]
    if theirs["header_keys"] is not None:
        assert ours["sequence"] == theirs["sequence"]
        assert ",".join(header["key"] for header in ours["headers"]) == theirs["header_keys"]
    else:
        assert ours["headers"] is None
        assert ours["sequence"] is None
    if theirs["marker"]:
        assert ours["control"] == {
            "type": theirs["marker"],
            "version": 0,
            "coordinator_epoch": theirs["coordinator_epoch"],
        }
    elif "control" not in ours:
        _check_content(theirs["rest"], ours)


def _check_content(rest: str, ours: Row) -> None:
    """Keys and payloads, where both are clean text."""
    texts = [ours[name] for name in ("key", "value") if ours[name] is not None]
    encoded = "key_encoding" in ours or "value_encoding" in ours
    if encoded or any(not text.replace("\n", "").isprintable() for text in texts):
        return
    expected = "" if ours["key"] is None else f" key: {ours['key']}"
    expected += "" if ours["value"] is None else f" payload: {ours['value']}"
    assert rest.rstrip("\n") == expected.rstrip("\n")
