"""Broker text files, see `formats/checkpoint.py`.

Follows `org.apache.kafka.server.common.CheckpointFile`, but continues after a malformed line.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import PurePath

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.wire import Integer
from kfmt_cli.disk.kinds.fixed import POSITION
from kfmt_cli.disk.kinds.kind import (
    MOST_QUOTED,
    TRANSIENT,
    Contents,
    Input,
    Kind,
    Level,
    quoted,
    read_whole,
)
from kfmt_cli.findings import files as codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.formats.checkpoint import CHECKPOINTS
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.section import section_of

MOST_BYTES = 64 << 20
REMOTE_SUFFIX = ".leader_epoch_checkpoint"  # a file in remote storage


def _column(field: Field) -> Column:
    kind = ColumnKind.NUMBER if isinstance(field.type, Integer) else ColumnKind.TEXT
    return Column(field.name, kind, field.doc, unit=field.unit)


def _rows() -> dict[str, RowType]:
    """The row type of each checkpoint; those with the same fields share one."""
    docs: dict[tuple[Field, ...], list[str]] = {}
    for checkpoint in CHECKPOINTS.values():
        docs.setdefault(checkpoint.fields, []).append(f"`{checkpoint.name}`: {checkpoint.doc}")
    types = {
        fields: RowType("checkpoint_entry", " ".join(each), (POSITION, *map(_column, fields)))
        for fields, each in docs.items()
    }
    return {name: types[checkpoint.fields] for name, checkpoint in CHECKPOINTS.items()}


ROWS = _rows()


def checkpoint_of(file: str) -> str:
    """The checkpoint that a file is, or is a copy of, by its name without its directory."""
    stem, _, suffix = file.rpartition(".")
    name = stem if suffix in TRANSIENT else file
    return "leader-epoch-checkpoint" if name.endswith(REMOTE_SUFFIX) else name


def read_checkpoint(file: Input) -> Contents:
    """The entries of a checkpoint file; raises InputError."""
    data = read_whole(file, MOST_BYTES)
    every = data.splitlines(keepends=True)
    starts = accumulate(map(len, every), initial=0)
    lines = [(at, line.strip()) for at, line in zip(starts, every, strict=False)]
    findings: list[Finding] = []

    def malformed(position: int, words: str) -> None:
        findings.append(Finding(file.name, codes.CHECKPOINT_MALFORMED, position, words))

    name = checkpoint_of(PurePath(file.path).name)
    if data and not data.strip(b"\0"):
        malformed(0, f"{quoted(_text(data))} instead of a version, as a power loss leaves them")
        return Contents(len(data), [section_of(ROWS[name], [])], findings)
    if data and len(lines) < 2:  # brokers create them empty
        malformed(len(data), "the file ends before the entry count")
    if lines and lines[0][1] != b"0":
        malformed(0, f"version {quoted(_text(lines[0][1]))}; only 0 is supported")
    rows = []
    for number, (position, line) in enumerate(lines[2:], 3):
        values = _values(CHECKPOINTS[name], line)
        if values is None:
            form = " ".join(field.name for field in CHECKPOINTS[name].fields)
            words = f"line {number} is not of the form {form}"
            malformed(position, f"{words}: {quoted(_text(line))}")
        else:
            rows.append([position, *values])
    if len(lines) > 1 and lines[1][1] != str(len(lines) - 2).encode():
        words = f"{_text(lines[1][1])[:MOST_QUOTED]} entries declared, {len(lines) - 2}"
        malformed(lines[1][0], f"{words} lines found")
    return Contents(len(data), [section_of(ROWS[name], rows)], findings)


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _values(checkpoint: Layout, line: bytes) -> list[str | int] | None:
    """The columns of a line, or None if it is malformed."""
    words = _text(line).split()
    if len(words) != len(checkpoint.fields):
        return None
    values: list[str | int] = []
    for field, word in zip(checkpoint.fields, words, strict=True):
        if not isinstance(field.type, Integer):
            values.append(word)
            continue
        try:
            values.append(int(word))
            field.type.write(values[-1])
        except (ValueError, OverflowError):  # not a number, or too large
            return None
    return values


CHECKPOINT = Kind(
    "checkpoint",
    Level.LOG_DIRECTORY,
    suffix=REMOTE_SUFFIX,
    names=frozenset(CHECKPOINTS),
    row_types=tuple(dict.fromkeys(ROWS.values())),
    codes=(codes.CHECKPOINT_MALFORMED,),
    layouts=tuple(CHECKPOINTS.values()),
    read=read_checkpoint,
)
