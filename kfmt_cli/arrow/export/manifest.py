"""Writes the inputs and outputs of an export, for audits, to `_kfmt/manifest.json`.

Exports into a table with a history store them per commit (`spark/lake/commits.py`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from kfmt_cli.arrow.export.atomic_files import json_bytes, open_atomic, read_json_file
from kfmt_cli.arrow.export.lake_options import ExportedFile
from kfmt_cli.arrow.topic_ids import TopicIdCache
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.findings.damage import FILE_UNREADABLE
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.table_types import LAKE_TABLES

KFMT_DIRECTORY = "_kfmt"
VERSION = 1
MAX_MEMORY_BYTES = 1 << 20


def input_source(
    split: FileSplit, topic_ids: TopicIdCache, findings: list[Finding]
) -> dict[str, Any]:
    """The facts about a split that are stored as the source of rows. findings: receives a finding
    if its topic id cannot be read."""
    topic, partition = split.topic_partition
    topic_id = None
    try:
        topic_id = topic_ids.find(split)
    except InputError as error:
        findings.append(Finding(split.path, FILE_UNREADABLE, None, str(error)))
    return {
        "path": split.path,
        "topic": topic,
        "partition": partition,
        "topic_id": topic_id,
        "bytes": split.size,
        "start": split.start,
        "end": split.end,
    }


def input_row(
    source: Mapping[str, Any], n_rows_by_table: dict[str, int], offsets: Iterable[int | None]
) -> dict[str, Any]:
    """The manifest entry for a split of an input: its file and bytes, its offsets and rows. source:
    see `input_source`. n_rows_by_table: number of rows by table."""
    first, last = offsets
    topic = source["topic"]
    return {
        "file": format_display_name(source["path"]),
        "topic": None if topic is None else format_display_name(topic),
        **{name: source[name] for name in ("partition", "topic_id", "bytes", "start", "end")},
        "first_offset": first,
        "last_offset": last,
        "rows": n_rows_by_table,
    }


def output_row(output: ExportedFile) -> dict[str, Any]:
    """The manifest entry for an output file: its table, rows and bytes."""
    row = asdict(output)
    del row["spans"]
    return {"file": row.pop("name"), **row}


def read_manifest_outputs(output_directory: str) -> list[str]:
    """The names of the files of an earlier export to a directory; raises InputError."""
    manifest = read_json_file(f"{output_directory}/{KFMT_DIRECTORY}/manifest.json")
    output_rows = manifest.get("outputs") if isinstance(manifest, dict) else None
    names = (row.get("file") for row in output_rows or () if isinstance(row, dict))
    return [name for name in names if isinstance(name, str) and _is_table_file(name)]


def _is_table_file(name: str) -> bool:
    """Whether a name is a path of a file in the directory of a table."""
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and parts[0] in LAKE_TABLES and ".." not in parts


class ExportManifest:
    """Collects the inputs and output files of an export. Inputs are kept in a temporary file until
    the end, as there can be many."""

    def __init__(self) -> None:
        self._outputs: dict[str, bytes] = {}

    @cached_property
    def _inputs(self) -> tempfile.SpooledTemporaryFile[bytes]:
        """The inputs so far, as JSON."""
        return tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES)

    def add_input(
        self,
        source: Mapping[str, Any],
        n_rows_by_table: dict[str, int],
        offsets: Iterable[int | None],
        outputs: Iterable[str],
    ) -> None:
        """Add an input and the files that contain it; see `input_row`."""
        row = {**input_row(source, n_rows_by_table, offsets), "outputs": list(outputs)}
        self._inputs.write((b",\n" if self._inputs.tell() else b"") + json_bytes(row))

    def add_outputs(self, outputs: Iterable[ExportedFile]) -> None:
        """Add output files."""
        self._outputs |= {output.name: json_bytes(output_row(output)) for output in outputs}

    def exclude_own(self, names: Iterable[str]) -> list[str]:
        """The names that are not output files of this export."""
        return [name for name in names if name not in self._outputs]

    def write(self, output_directory: str) -> None:
        """Write the manifest under the directory of an export; raises OutputError."""
        with open_atomic(f"{output_directory}/{KFMT_DIRECTORY}/manifest.json") as out:
            out.write(b'{"version": %d, "inputs": [\n' % VERSION)
            self._inputs.seek(0)
            shutil.copyfileobj(self._inputs, out)
            self._inputs.close()
            out.write(b'\n], "outputs": [\n' + b",\n".join(self._outputs.values()) + b"\n]}\n")
