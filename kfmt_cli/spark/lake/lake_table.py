"""A lake's directory as a table with a history.

A run writes new files next to the existing ones, then writes a commit, then moves its files to
where readers see them, then rewrites the manifest, and only then deletes the replaced files. A run
that is killed leaves the old state, or the new one, which the next run finishes.

The unit is a file group: the files that one task wrote, with the rows of some splits of inputs.
Rows of an input are replaced by rows of the same input. If other rows of a file group are kept,
they are copied to a new file group.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from kfmt_cli.arrow.export.atomic_files import list_file_names, remove_file, write_json_file
from kfmt_cli.arrow.export.lake_options import ExportedFile
from kfmt_cli.arrow.export.manifest import manifest_input_row, manifest_output_row
from kfmt_cli.arrow.export.row_copying import RetainedSplit, copy_retained_rows
from kfmt_cli.arrow.topic_ids import TopicIdCache
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.urls import is_local, is_path_or_subpath, strip_file_scheme
from kfmt_cli.disk.file_listing import iter_files
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest
from kfmt_cli.render.style import format_count, format_thousands
from kfmt_cli.rows.table_types import LAKE_TABLES
from kfmt_cli.spark.job import StoredResult
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.lake import commits
from kfmt_cli.spark.lake.commits import (
    TableCommit,
    read_file_groups,
    read_newest_commit,
    write_commit,
    write_next_manifest,
)
from kfmt_cli.spark.lake.table_formats import TargetTables
from kfmt_cli.spark.split_processing import is_input_unreadable

ALL_ROWS_OFFSET = -1 << 63  # all rows, as all have higher offsets
APPEND_MODE, SYNC_MODE, REPLACE_MODE = "append", "sync", "replace"
# The name of an output: its segment, the start of its first split, a hash, a number.
_OUTPUT_NAME = re.compile(r"(?P<front>.*-\d{12})-[0-9a-f]{12}(?P<end>(-\d{1,11})?\.\w+)")
SourcePartition = tuple[Any, Any]
"""Topic id, or topic without one, and partition."""


@dataclass(slots=True)
class InputObservations:
    """Facts about its inputs that a run collects."""

    has_deleted_inputs: bool = True
    """Whether the table has rows of inputs that no longer exist."""
    unreadable_paths: set[str] = field(default_factory=set)
    """Paths of inputs that could not be read."""
    offsets_by_partition: dict[SourcePartition, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """First and last offsets of the inputs' rows."""

    def add_result(self, split: FileSplit, result: StoredResult) -> None:
        """Add the result of a split."""
        if is_input_unreadable(result):
            self.unreadable_paths.add(split.path)
        first_offset, last_offset = result.offsets
        if first_offset is not None and self.has_deleted_inputs:
            self.offsets_by_partition[_source_partition(result.input)].append(
                (first_offset, last_offset)
            )

    def find_min_offset_within(self, result: StoredResult) -> int | None:
        """The lowest offset of inputs within the offsets of this result's rows; None if no input
        has one."""
        first_offset, last_offset = result.offsets
        if first_offset is None:
            return None
        offset_intervals = self.offsets_by_partition.get(_source_partition(result.input), ())
        return min(
            (
                max(interval_start, first_offset)
                for interval_start, interval_end in offset_intervals
                if interval_start <= last_offset and first_offset <= interval_end
            ),
            default=None,
        )


def _source_partition(source: FieldDict) -> SourcePartition:
    return source.topic_id or source.topic or source.path, source.partition


@dataclass(slots=True)
class LakeTable:
    """A table, and a run that changes it."""

    job_directory: JobDirectory
    mode: str
    input_paths: tuple[str, ...]
    topics: frozenset[str]
    file_format: str
    target_tables: TargetTables | None = None
    """The tables of a table format to which the files are also committed."""
    unlistable_paths: tuple[str, ...] = ()
    """The directories and files that could not be listed."""
    _topic_id_by_path: dict[str, str | None] = field(default_factory=dict)
    """The topic ids of this run's inputs for which the table has other rows, by path."""
    _n_retained_rows: Counter[str] = field(default_factory=Counter)
    """Rows, by table, of inputs that are gone or not part of this run."""
    _n_retained_inputs: int = 0
    """The number of these inputs."""
    _last_commit: TableCommit = field(default_factory=TableCommit)
    _files_by_group: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The files of each file group of the last commit, as in the manifest."""

    def load_state(self) -> None:
        """Read the state; finish the last commit if its run was killed."""
        job_directory = self.job_directory
        self._last_commit = read_newest_commit(job_directory.path)
        self._files_by_group = read_file_groups(job_directory.path, self._last_commit)
        job_directory.committed_result_files = frozenset(self._files_by_group)
        job_directory.run_number = self._last_commit.number + 1
        if not job_directory.is_dry_run:
            self._publish()

    def plan_run(self, request: ReadRequest, all_files: FileSplits) -> None:
        """Plan the run. all_files: including those that could not be listed."""
        self.unlistable_paths = tuple(all_files.read_errors)
        self.job_directory.plan_splits(request, all_files.readable_splits)

    def _iter_stale_results(self) -> Iterator[tuple[str, str, StoredResult]]:
        """The results whose input has changed, is gone or is not part of this run: file group,
        split name, result."""
        for file_group, split_names in self.job_directory.stale_splits_by_file.items():
            results = self.job_directory.read_results(file_group)
            yield from ((file_group, name, results[name]) for name in split_names)

    def iter_removed_results(
        self, observations: InputObservations | None = None
    ) -> Iterator[tuple[str, str, StoredResult, int]]:
        """The results of which the run removes rows: file group, split name, result, and the first
        offset removed. observations: None before the run."""
        topic_ids = TopicIdCache()
        unreadable_paths = observations.unreadable_paths if observations is not None else set()
        stale_paths = {result.input.path for *_, result in self._iter_stale_results()}
        self._topic_id_by_path = {
            split.path: _find_topic_id(topic_ids, split)
            for split in self.job_directory.splits
            if split.start == 0 and split.path in stale_paths
        }
        for file_group, split_name, result in self._iter_stale_results():
            input_path = result.input.path
            if input_path in unreadable_paths or _is_below_any(input_path, self.unlistable_paths):
                continue
            removal_offset = (
                self._find_removal_offset(result, observations)
                if self.is_input_gone(result)
                else ALL_ROWS_OFFSET
            )
            if removal_offset is not None:
                yield file_group, split_name, result, removal_offset

    def _find_removal_offset(
        self, result: StoredResult, observations: InputObservations | None
    ) -> int | None:
        """The first offset removed of an input outside this run; None if all rows are kept."""
        if self.mode == REPLACE_MODE:
            return ALL_ROWS_OFFSET
        source_input = result.input
        is_other_topic = self.topics and source_input.topic not in self.topics
        if is_other_topic or not _is_below_any(source_input.path, self.input_paths):
            return None
        if self.mode == SYNC_MODE:
            return ALL_ROWS_OFFSET
        # Other files may have these rows: the partition moved, was compacted or was truncated.
        lowest_offset = (
            None if observations is None else observations.find_min_offset_within(result)
        )
        return (
            ALL_ROWS_OFFSET
            if lowest_offset is not None and lowest_offset <= result.offsets[0]
            else lowest_offset
        )

    def is_input_gone(self, result: StoredResult) -> bool:
        """Whether the input of a result is not part of this run, or its path is now a file of
        another topic with the same name."""
        source_input = result.input
        current_topic_id = self._topic_id_by_path.get(source_input.path, "")
        return current_topic_id == "" or (
            None not in (current_topic_id, source_input.topic_id)
            and current_topic_id != source_input.topic_id
        )

    def describe_retained_rows(self) -> list[str]:
        """A line about the rows in the table that are not from this run; none without such rows."""
        if not self._n_retained_inputs:
            return []
        rows_text = ", ".join(
            f"{format_thousands(n)} {table}" for table, n in self._n_retained_rows.items()
        )
        inputs_text = format_count(
            self._n_retained_inputs, "input that is gone", "inputs that are gone"
        )
        return [f"{rows_text} kept of {inputs_text} or not part of this run"]

    def commit_run(self, observations: InputObservations) -> None:
        """Make the rows of the run visible, and remove what they replace."""
        job_directory = self.job_directory
        removal_offsets_by_group: dict[str, dict[str, int]] = {
            file_group: {} for file_group in job_directory.stale_splits_by_file
        }
        for file_group, split_name, _, removal_offset in self.iter_removed_results(observations):
            removal_offsets_by_group[file_group][split_name] = removal_offset
        for file_group, split_name, result in self._iter_stale_results():
            if split_name not in removal_offsets_by_group[file_group]:
                self._n_retained_inputs += 1
                self._n_retained_rows.update(result.rows)
        self._drop_partial_reads(observations.unreadable_paths, removal_offsets_by_group)
        new_groups = dict.fromkeys(
            [
                *job_directory.list_result_files(),
                *sorted(job_directory.committed_result_files - job_directory.missing_result_files),
            ]
        )
        copied_groups: list[str] = []
        for file_group, offset_by_split in removal_offsets_by_group.items():
            if offset_by_split:
                del new_groups[file_group]
                copied_groups += self._copy_remaining_rows(file_group, offset_by_split)
        new_groups |= dict.fromkeys(copied_groups)
        if set(new_groups) != job_directory.committed_result_files:
            self._write_commit(new_groups)
        self._publish()
        self.write_manifest()
        self._delete_unreferenced()

    def _write_commit(self, new_groups: Iterable[str]) -> None:
        """Write the commit after which the table consists of these file groups."""
        job_directory = self.job_directory
        previous_groups = self._files_by_group
        topics = tuple(sorted(self.topics))
        self._files_by_group = {
            file_group: previous_groups.get(file_group, []) for file_group in new_groups
        }

        def iter_changes() -> Iterator[tuple[str, Any]]:
            yield from (
                (file_group, None)
                for file_group in previous_groups
                if file_group not in self._files_by_group
            )
            for file_group in [
                file_group
                for file_group in self._files_by_group
                if file_group not in previous_groups
            ]:
                file_rows = [
                    manifest_output_row(output)
                    for output in job_directory.read_exported_files(file_group)
                ]
                results = job_directory.read_results(file_group).values()
                input_rows = [
                    manifest_input_row(result.input, result.rows, result.offsets)
                    for result in results
                ]
                self._files_by_group[file_group] = file_rows
                yield file_group, {"inputs": input_rows, "outputs": file_rows}

        next_commit = write_next_manifest(job_directory.path, self._last_commit, iter_changes())
        next_commit = replace(next_commit, mode=self.mode, inputs=self.input_paths, topics=topics)
        write_commit(job_directory.path, next_commit)
        self._last_commit = next_commit

    def _drop_partial_reads(
        self, unreadable_paths: set[str], removal_offsets_by_group: dict[str, dict[str, int]]
    ) -> None:
        """Drop the rows just read from inputs that could not be read to the end, if the table
        already has rows of them."""
        job_directory = self.job_directory
        if not unreadable_paths:
            return
        stale_paths = {result.input.path for *_, result in self._iter_stale_results()}
        for file_group in job_directory.list_result_files():
            if file_group not in job_directory.committed_result_files:
                results = job_directory.read_results(file_group)
                removal_offset_by_split = {
                    name: ALL_ROWS_OFFSET
                    for name, result in results.items()
                    if result.input.path in unreadable_paths & stale_paths
                }
                removal_offsets_by_group.setdefault(file_group, {}).update(removal_offset_by_split)

    def _copy_remaining_rows(
        self, file_group: str, offset_by_split: dict[str, int]
    ) -> Iterator[str]:
        """Copy the rows of a file group that are kept; yields the new file group, if there is one.
        offset_by_split: the first offset removed, by split name."""
        job_directory = self.job_directory
        results = job_directory.read_results(file_group)
        remaining_results = {
            name: StoredResult(result, outputs=[], files=[], rows=dict.fromkeys(result.rows, 0))
            for name, result in results.items()
            if offset_by_split.get(name) != ALL_ROWS_OFFSET
        }
        if not remaining_results:
            return
        name_hash = blake2b(
            repr((file_group, job_directory.run_number, sorted(offset_by_split))).encode(),
            digest_size=6,
        )
        new_index_by_name = {name: i for i, name in enumerate(remaining_results)}
        retained_splits = {
            i: RetainedSplit(new_index_by_name[name], offset_by_split.get(name))
            for i, name in enumerate(results)
            if name in new_index_by_name
        }
        for name in remaining_results.keys() & offset_by_split:
            remaining_results[name].offsets = [
                remaining_results[name].offsets[0],
                offset_by_split[name] - 1,
            ]
        copied_files: list[ExportedFile] = []
        for output in job_directory.read_exported_files(file_group):
            new_name = _OUTPUT_NAME.sub(rf"\g<front>-{name_hash.hexdigest()}\g<end>", output.name)
            output_path = self._output_path(output.name)
            staging_directory = job_directory.job.staging_directory(job_directory.path)
            copied_file = copy_retained_rows(
                output, retained_splits, output_path, staging_directory, new_name, self.file_format
            )
            copied_files += [] if copied_file is None else [copied_file]
        results_in_order = list(remaining_results.values())
        for copied_file in copied_files:
            for split_index, _, n_rows in copied_file.spans:
                if split_index >= 0:
                    results_in_order[split_index].rows[copied_file.table] += n_rows
        first_result = next(iter(remaining_results.values()))
        first_result.outputs = [output.name for output in copied_files]
        first_result.files = [asdict(output) for output in copied_files]
        new_name = f"{file_group.removesuffix('.json')[:200]}-rest-{name_hash.hexdigest()}.json"
        write_json_file(f"{job_directory.results_directory}/{new_name}", remaining_results)
        yield new_name

    def _output_path(self, output_name: str) -> str:
        """The path of an output, whether it is already published or not."""
        staged_path = (
            f"{self.job_directory.job.staging_directory(self.job_directory.path)}/{output_name}"
        )
        is_staged = is_local(staged_path) and Path(strip_file_scheme(staged_path)).exists()
        return staged_path if is_staged else f"{self.job_directory.path}/{output_name}"

    def _publish(self) -> None:
        """Make the last commit visible to readers."""
        self._move_staged_files()
        if self.target_tables is not None:
            self.target_tables.commit_changes(self.job_directory.path, self._last_commit)

    def _move_staged_files(self) -> None:
        """Move the outputs of the last commit to where readers look for them."""
        job_directory = self.job_directory
        staging_directory = Path(
            strip_file_scheme(job_directory.job.staging_directory(job_directory.path))
        )
        if not is_local(job_directory.path) or not staging_directory.is_dir():
            return
        for file_row in self._committed_file_rows:
            staged_path = staging_directory / file_row["file"]
            if staged_path.exists():
                published_path = Path(strip_file_scheme(job_directory.path)) / file_row["file"]
                published_path.parent.mkdir(parents=True, exist_ok=True)
                staged_path.replace(published_path)

    @property
    def _committed_file_rows(self) -> Iterator[dict[str, Any]]:
        """The files of the last commit, as in the manifest."""
        return chain.from_iterable(self._files_by_group.values())

    def write_manifest(self) -> None:
        """Publish the list of the table's inputs and files."""
        commits.publish_manifest(
            self.job_directory.path, self._last_commit, self._committed_file_rows
        )

    def _delete_unreferenced(self) -> None:
        """Delete the results and files that belong to no file group of the last commit."""
        job_directory = self.job_directory
        commits.delete_unlisted_parts(job_directory.path, self._last_commit)
        for file_name in (
            list_file_names(job_directory.results_directory) - self._files_by_group.keys()
        ):
            remove_file(f"{job_directory.results_directory}/{file_name}")
        committed_names = {file["file"].rpartition("/")[2] for file in self._committed_file_rows}
        staging_directory = job_directory.job.staging_directory(job_directory.path)
        if staging_directory != job_directory.path:
            shutil.rmtree(strip_file_scheme(staging_directory), ignore_errors=True)
        for table in LAKE_TABLES if self.target_tables is None else ():
            with suppress(InputError):  # no such directory
                for file in iter_files(f"{job_directory.path}/{table}"):
                    file_name = file.path.rpartition("/")[2]
                    if _OUTPUT_NAME.fullmatch(file_name) and file_name not in committed_names:
                        remove_file(file.path)


def _find_topic_id(topic_ids: TopicIdCache, split: FileSplit) -> str | None:
    """The topic id of a file; None if it is unknown, also because it cannot be read."""
    try:
        return topic_ids.find_topic_id(split)
    except InputError:
        return None


def _is_below_any(path: str, input_paths: Iterable[str]) -> bool:
    """Whether a file is one of some inputs, or below one."""
    return any(is_path_or_subpath(path, input_path) for input_path in input_paths)
