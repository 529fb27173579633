"""The text files of a broker, see `formats/checkpoint.py`.

Follows `org.apache.kafka.server.common.CheckpointFile`; on past a line that it would stop at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.core.finding import Finding
from kfmt_cli.core.source import open_source
from kfmt_cli.errors import InputError
from kfmt_cli.files import index_codes as codes
from kfmt_cli.files.discover import Input
from kfmt_cli.files.foreign import START, foreign_words
from kfmt_cli.formats.checkpoint import CHECKPOINTS, Checkpoint

MOST_BYTES = 64 << 20
REMOTE_SUFFIX = ".leader_epoch_checkpoint"  # of a file in remote storage


@dataclass(slots=True)
class Entries:
    """kind: with the columns' names. rows: (byte in the file, values)."""

    kind: Checkpoint
    rows: list[tuple[int, list[str | int]]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read_checkpoint(file: Input) -> Entries:
    """The entries of a checkpoint file; raises InputError."""
    source = open_source(file.path, file.name)
    try:
        if source.size is None or source.size > MOST_BYTES:
            raise InputError(f"{file.name}: is larger than {file.kind.words} can be")
        data = source.block(0, MOST_BYTES, source.size)
    finally:
        source.close()
    if foreign := foreign_words(data[:START]):
        raise InputError(f"{file.name}: is not {file.kind.words} but {foreign}")
    name = Path(file.path).name
    kind = CHECKPOINTS["leader-epoch-checkpoint" if name.endswith(REMOTE_SUFFIX) else name]
    entries = Entries(kind)
    at = 0
    lines: list[tuple[int, bytes]] = []
    for line in data.splitlines(keepends=True):
        lines.append((at, line.strip()))
        at += len(line)

    def malformed(position: int, words: str) -> None:
        code = codes.CHECKPOINT_MALFORMED
        entries.findings.append(Finding(file.name, code, position, words))

    if not data:
        words = "0 bytes: no version, and no number of entries"
        entries.findings.append(Finding(file.name, codes.CHECKPOINT_EMPTY, None, words))
    elif len(lines) < 2:
        malformed(len(data), "the file ends before the number of entries")
    if lines and lines[0][1] != b"0":
        malformed(0, f"version {lines[0][1].decode(errors='replace')!r}, only 0 is known")
    for number, (position, line) in enumerate(lines[2:], 3):
        values = _values(kind, line)
        if values is None:
            words = f"line {number} is not {' '.join(kind.columns)}"
            malformed(position, f"{words}: {line.decode(errors='replace')!r}")
        else:
            entries.rows.append((position, values))
    if len(lines) > 1 and lines[1][1] != str(len(lines) - 2).encode():
        words = f"{lines[1][1].decode(errors='replace')} entries are declared, {len(lines) - 2}"
        malformed(lines[1][0], f"{words} lines follow")
    return entries


def _values(kind: Checkpoint, line: bytes) -> list[str | int] | None:
    """The columns of a line, or None."""
    words = line.decode(errors="replace").split()
    if len(words) != len(kind.columns):
        return None
    try:
        return [
            word if name == "topic" else int(word)
            for name, word in zip(kind.columns, words, strict=True)
        ]
    except ValueError:
        return None
