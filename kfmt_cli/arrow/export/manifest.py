"""The inputs and outputs of an export, for audits: `_kfmt/manifest.json`.

Exports into a table with a history have them in parts (`spark/lake/commits.py`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from kfmt_cli.arrow.export.lake import Output
from kfmt_cli.arrow.export.output import appearing, as_json, get_json
from kfmt_cli.arrow.topic_ids import TopicIds
from kfmt_cli.core.urls import name_text
from kfmt_cli.errors import InputError
from kfmt_cli.findings.damage import FILE_UNREADABLE
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.table_types import LAKE_TABLES
from kfmt_cli.sharing.piece import Piece

FOLDER = "_kfmt"
VERSION = 1
IN_MEMORY = 1 << 20  # bytes


def source_of(piece: Piece, ids: TopicIds, findings: list[Finding]) -> dict[str, Any]:
    """What is kept about the input of some rows. findings: gets one if its topic id cannot be
    read."""
    topic, partition = piece.place
    topic_id = None
    try:
        topic_id = ids.of(piece)
    except InputError as error:
        findings.append(Finding(piece.path, FILE_UNREADABLE, None, str(error)))
    return {
        "path": piece.path,
        "topic": topic,
        "partition": partition,
        "topic_id": topic_id,
        "bytes": piece.size,
        "start": piece.start,
        "end": piece.end,
    }


def input_row(
    source: Mapping[str, Any], rows: dict[str, int], offsets: Iterable[int | None]
) -> dict[str, Any]:
    """An input, or part of one: its file and bytes, its offsets and rows. source: see
    `source_of`."""
    first, last = offsets
    topic = source["topic"]
    return {
        "file": name_text(source["path"]),
        "topic": None if topic is None else name_text(topic),
        **{name: source[name] for name in ("partition", "topic_id", "bytes", "start", "end")},
        "first_offset": first,
        "last_offset": last,
        "rows": rows,
    }


def output_row(output: Output) -> dict[str, Any]:
    """A file: its table, rows and bytes."""
    known = asdict(output)
    del known["spans"]
    return {"file": known.pop("name"), **known}


def outputs_of(to: str) -> list[str]:
    """The names of the files of an earlier export to a directory; raises InputError."""
    known = get_json(f"{to}/{FOLDER}/manifest.json")
    rows = known.get("outputs") if isinstance(known, dict) else None
    names = (row.get("file") for row in rows or () if isinstance(row, dict))
    return [name for name in names if isinstance(name, str) and _is_output(name)]


def _is_output(name: str) -> bool:
    """Whether a name is that of a file in the directory of a table."""
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and parts[0] in LAKE_TABLES and ".." not in parts


class ExportManifest:
    """The inputs and files of an export. Inputs are kept in a temporary file until the end, as
    there can be many."""

    def __init__(self) -> None:
        self._outputs: dict[str, bytes] = {}

    @cached_property
    def _inputs(self) -> tempfile.SpooledTemporaryFile[bytes]:
        """The inputs so far."""
        return tempfile.SpooledTemporaryFile(IN_MEMORY)

    def add_input(
        self,
        source: Mapping[str, Any],
        rows: dict[str, int],
        offsets: Iterable[int | None],
        outputs: Iterable[str],
    ) -> None:
        """Add an input and the files that contain it; see `input_row`."""
        about = {**input_row(source, rows, offsets), "outputs": list(outputs)}
        self._inputs.write((b",\n" if self._inputs.tell() else b"") + as_json(about))

    def add_outputs(self, outputs: Iterable[Output]) -> None:
        """Add files."""
        self._outputs |= {output.name: as_json(output_row(output)) for output in outputs}

    def without(self, names: Iterable[str]) -> list[str]:
        """The names of files that are not among its own."""
        return [name for name in names if name not in self._outputs]

    def write(self, to: str) -> None:
        """Write the manifest under the directory of an export; raises OutputError."""
        with appearing(f"{to}/{FOLDER}/manifest.json") as out:
            out.write(b'{"version": %d, "inputs": [\n' % VERSION)
            self._inputs.seek(0)
            shutil.copyfileobj(self._inputs, out)
            self._inputs.close()
            out.write(b'\n], "outputs": [\n' + b",\n".join(self._outputs.values()) + b"\n]}\n")
