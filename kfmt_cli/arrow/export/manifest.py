"""Writes the inputs and outputs of an export, for audits, to `_kfmt/manifest.json`.

Exports into a table with a history store them per commit (`spark/lake/commits.py`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from kfmt_cli.arrow.export.atomic_files import encode_json, open_atomic, read_file_bytes
from kfmt_cli.arrow.export.lake_options import ExportedFile
from kfmt_cli.arrow.topic_ids import TopicIdCache
from kfmt_cli.core.json_text import parse_json
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.findings.codes import FILE_UNREADABLE
from kfmt_cli.findings.finding import Finding
from kfmt_cli.rows.table_types import LAKE_TABLES

KFMT_DIRECTORY = "_kfmt"
MANIFEST_VERSION = 1
MAX_INPUT_MEMORY_BYTES = 1 << 20


def manifest_source(
    split: FileSplit, topic_ids: TopicIdCache, findings: list[Finding]
) -> dict[str, Any]:
    """The facts about a split that are stored as the source of rows. findings: receives a finding
    if its topic id cannot be read."""
    topic, partition = split.topic_partition
    topic_id = None
    try:
        topic_id = topic_ids.find_topic_id(split)
    except InputError as error:
        findings.append(Finding(split.path, FILE_UNREADABLE, None, str(error)))
    return {
        "path": split.path,
        "topic": topic,
        "partition": partition,
        "topic_id": topic_id,
        "bytes": split.file_size,
        "start": split.start,
        "end": split.end,
    }


def manifest_input_row(
    source: Mapping[str, Any], n_rows_by_table: dict[str, int], offset_bounds: Iterable[int | None]
) -> dict[str, Any]:
    """The manifest entry for a split of an input: its file and bytes, its offsets and rows. source:
    see `manifest_source`. n_rows_by_table: number of rows by table."""
    first_offset, last_offset = offset_bounds
    topic = source["topic"]
    return {
        "file": format_display_name(source["path"]),
        "topic": None if topic is None else format_display_name(topic),
        **{
            member_name: source[member_name]
            for member_name in ("partition", "topic_id", "bytes", "start", "end")
        },
        "first_offset": first_offset,
        "last_offset": last_offset,
        "rows": n_rows_by_table,
    }


def manifest_output_row(exported_file: ExportedFile) -> dict[str, Any]:
    """The manifest entry for an output file: its table, rows and bytes."""
    output_members = asdict(exported_file)
    del output_members["spans"]
    return {"file": output_members.pop("name"), **output_members}


def read_manifest_outputs(output_directory: str) -> list[str]:
    """The names of the files of an earlier export to a directory; raises InputError."""
    path = f"{output_directory}/{KFMT_DIRECTORY}/manifest.json"
    manifest_bytes = read_file_bytes(path)
    if manifest_bytes is None:
        return []
    try:
        manifest = parse_json(manifest_bytes)
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from error
    output_rows = manifest.get("outputs") if isinstance(manifest, dict) else None
    file_names = (row.get("file") for row in output_rows or () if isinstance(row, dict))
    return [
        file_name
        for file_name in file_names
        if isinstance(file_name, str) and _is_table_file(file_name)
    ]


def _is_table_file(file_name: str) -> bool:
    """Whether a name is a path of a file in the directory of a table."""
    path_parts = PurePosixPath(file_name).parts
    return len(path_parts) > 1 and path_parts[0] in LAKE_TABLES and ".." not in path_parts


@dataclass(slots=True)
class OutputTotal:
    """The number of files of a table, their rows and bytes."""

    n_files: int = 0
    n_rows: int = 0
    n_bytes: int = 0
    suffix: str = ""


class ExportManifest:
    """Collects the inputs and output files of an export. Inputs are kept in a temporary file until
    the end, as there can be many."""

    def __init__(self) -> None:
        self._json_by_output_name: dict[str, bytes] = {}
        self.output_totals: dict[str, OutputTotal] = {}
        """The totals of the files of each table."""

    @cached_property
    def _inputs_file(self) -> tempfile.SpooledTemporaryFile[bytes]:
        """The inputs so far, as JSON."""
        return tempfile.SpooledTemporaryFile(MAX_INPUT_MEMORY_BYTES)

    def add_input(
        self,
        source: Mapping[str, Any],
        n_rows_by_table: dict[str, int],
        offset_bounds: Iterable[int | None],
        output_names: Iterable[str],
    ) -> None:
        """Add an input and the files that contain it; see `manifest_input_row`."""
        input_members = {
            **manifest_input_row(source, n_rows_by_table, offset_bounds),
            "outputs": list(output_names),
        }
        self._inputs_file.write(
            (b",\n" if self._inputs_file.tell() else b"") + encode_json(input_members)
        )

    def add_outputs(self, exported_files: Iterable[ExportedFile]) -> None:
        """Add output files."""
        exported_files = list(exported_files)
        for exported_file in exported_files:
            total = self.output_totals.setdefault(exported_file.table, OutputTotal())
            total.n_files += 1
            total.suffix = exported_file.name.rpartition(".")[2]
            total.n_rows += exported_file.rows
            total.n_bytes += exported_file.bytes
        self._json_by_output_name |= {
            exported_file.name: encode_json(manifest_output_row(exported_file))
            for exported_file in exported_files
        }

    def exclude_own_files(self, file_names: Iterable[str]) -> list[str]:
        """The names that are not output files of this export."""
        return [file_name for file_name in file_names if file_name not in self._json_by_output_name]

    def write_manifest(self, output_directory: str) -> None:
        """Write the manifest under the directory of an export; raises OutputError."""
        with open_atomic(f"{output_directory}/{KFMT_DIRECTORY}/manifest.json") as output_stream:
            output_stream.write(b'{"version": %d, "inputs": [\n' % MANIFEST_VERSION)
            self._inputs_file.seek(0)
            shutil.copyfileobj(self._inputs_file, output_stream)
            self._inputs_file.close()
            output_stream.write(
                b'\n], "outputs": [\n' + b",\n".join(self._json_by_output_name.values()) + b"\n]}\n"
            )
