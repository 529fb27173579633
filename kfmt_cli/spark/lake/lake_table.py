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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from kfmt_cli.arrow.export.atomic_files import list_file_names, remove_file, write_json_file
from kfmt_cli.arrow.export.lake_options import ExportedFile
from kfmt_cli.arrow.export.manifest import manifest_input_row, manifest_output_row
from kfmt_cli.arrow.export.row_copying import (
    RetainedSplit,
    copy_retained_rows,
    count_rows_from,
)
from kfmt_cli.arrow.topic_ids import TopicIdCache, find_known_topic_id
from kfmt_cli.broker.log_reading.offset_intervals import subtract_intervals
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.core.urls import is_local, is_path_or_subpath, path_in_listings, strip_file_scheme
from kfmt_cli.disk.file_listing import iter_files
from kfmt_cli.errors import InputError
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
from kfmt_cli.spark.lake.removals import (
    ALL_OFFSETS,
    InputObservations,
    RemovedOffsets,
)
from kfmt_cli.spark.lake.table_formats import TargetTables

APPEND_MODE, SYNC_MODE, REPLACE_MODE = "append", "sync", "replace"
# The name of an output: its segment, the start of its first split, a hash, a number.
_OUTPUT_NAME = re.compile(r"(?P<front>.*-\d{12})-[0-9a-f]{12}(?P<end>(-\d{1,11})?\.\w+)")


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
    _n_truncated_rows: int = 0
    """Rows of records that are no longer in a log, because it was truncated."""
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
            if commits.read_manifest_number(job_directory.path) != self._last_commit.number:
                self.write_manifest()  # it may name files that this run deletes

    def plan_run(self, request: ReadRequest, all_files: FileSplits) -> None:
        """Plan the run; raises InputError for a path that cannot be read if the run removes the
        rows of missing inputs. all_files: including those that could not be listed."""
        read_errors = all_files.read_errors
        self.unlistable_paths = tuple(read_errors)
        for path in () if self.mode == APPEND_MODE else self.input_paths:
            if (reason := read_errors.get(path_in_listings(path))) is not None:
                raise InputError(
                    f"{path}: {reason}; --mode {self.mode} would remove the rows of its inputs: "
                    "name paths that can be read, or use --mode append"
                )
        self.job_directory.plan_splits(request, all_files.readable_splits)

    def _iter_stale_results(self) -> Iterator[tuple[str, str, StoredResult]]:
        """The results whose input has changed, is gone or is not part of this run: file group,
        split name, result."""
        for file_group, split_names in self.job_directory.stale_splits_by_file.items():
            results = self.job_directory.read_results(file_group)
            yield from ((file_group, name, results[name]) for name in split_names)

    def iter_removed_results(
        self, observations: InputObservations | None = None
    ) -> Iterator[tuple[str, str, StoredResult, RemovedOffsets]]:
        """The results that lose rows in the run: file group, split name, result, and the offsets
        removed. observations: None before the run."""
        topic_ids = TopicIdCache()
        stale_paths = {result.input.path for *_, result in self._iter_stale_results()}
        self._topic_id_by_path = {
            split.path: find_known_topic_id(topic_ids, split)
            for split in self.job_directory.splits
            if split.start == 0 and split.path in stale_paths
        }
        if observations is not None:
            observations.add_unlistable_paths(self.unlistable_paths)
        for file_group, split_name, result in self._iter_stale_results():
            removed_offsets = self._find_removed_offsets(result, observations)
            if removed_offsets.intervals:
                yield file_group, split_name, result, removed_offsets

    def _find_removed_offsets(
        self, result: StoredResult, observations: InputObservations | None
    ) -> RemovedOffsets:
        """The offsets removed of an input that has changed or is not part of this run."""
        source_input = result.input
        is_unreadable = _is_below_any(source_input.path, self.unlistable_paths) or (
            observations is not None and source_input.path in observations.unreadable_paths
        )
        is_gone = not is_unreadable and (
            self.is_input_gone(result)
            or (observations is not None and observations.is_log_empty(source_input))
        )
        all_offsets = RemovedOffsets(ALL_OFFSETS)
        if observations is not None and not is_unreadable:
            all_offsets = observations.find_replaced_offsets(result)
        if not is_unreadable and not is_gone:
            return all_offsets
        is_other_topic = self.topics and source_input.topic not in self.topics
        if is_other_topic or not _is_below_any(source_input.path, self.input_paths):
            return RemovedOffsets(ALL_OFFSETS if self.mode == REPLACE_MODE else [])
        is_removed_if_gone = self.mode != APPEND_MODE and (
            observations is None or observations.is_partition_read(source_input)
        )
        if is_gone and is_removed_if_gone:
            return all_offsets
        if observations is None:
            return RemovedOffsets()
        # Other files may have these rows: the partition moved, was compacted or was truncated.
        return observations.find_removed_offsets(result, is_gone=is_gone)

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
        """Lines about the rows in the table that are not from this run, and about those removed
        because their log was truncated; none without such rows."""
        lines: list[str] = []
        if self._n_truncated_rows:
            rows_text = format_count(self._n_truncated_rows, "row")
            lines.append(f"{rows_text} removed, as their logs were truncated before them")
        if not self._n_retained_inputs:
            return lines
        rows_text = ", ".join(
            f"{format_thousands(n)} {table}" for table, n in self._n_retained_rows.items()
        )
        inputs_text = format_count(
            self._n_retained_inputs, "input that is gone", "inputs that are gone"
        )
        return [*lines, f"{rows_text} kept of {inputs_text} or not part of this run"]

    def commit_run(self, observations: InputObservations) -> None:
        """Make the rows of the run visible, and remove what they replace."""
        job_directory = self.job_directory
        removals_by_group: dict[str, dict[str, RemovedOffsets]] = {
            file_group: {} for file_group in job_directory.stale_splits_by_file
        }
        for file_group, split_name, _, removed in self.iter_removed_results(observations):
            removals_by_group[file_group][split_name] = removed
        for file_group, split_name, result in self._iter_stale_results():
            if split_name not in removals_by_group[file_group]:
                self._n_retained_inputs += 1
                self._n_retained_rows.update(result.rows)
        self._drop_partial_reads(observations.unreadable_paths, removals_by_group)
        new_groups = dict.fromkeys(
            [
                *job_directory.list_result_files(),
                *sorted(job_directory.committed_result_files - job_directory.missing_result_files),
            ]
        )
        copied_groups: list[str] = []
        for file_group, removal_by_split in removals_by_group.items():
            if removal_by_split:
                del new_groups[file_group]
                copied_groups += self._copy_remaining_rows(file_group, removal_by_split)
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
        self,
        unreadable_paths: set[str],
        removals_by_group: dict[str, dict[str, RemovedOffsets]],
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
                removals_by_split = {
                    name: RemovedOffsets(ALL_OFFSETS)
                    for name, result in results.items()
                    if result.input.path in unreadable_paths & stale_paths
                }
                removals_by_group.setdefault(file_group, {}).update(removals_by_split)

    def _copy_remaining_rows(
        self, file_group: str, removal_by_split: dict[str, RemovedOffsets]
    ) -> Iterator[str]:
        """Copy the rows of a file group that are kept; yields the new file group, if there is one.
        removal_by_split: the offsets removed, by split name."""
        job_directory = self.job_directory
        results = job_directory.read_results(file_group)
        remaining_results = {
            name: StoredResult(result, outputs=[], files=[], rows=dict.fromkeys(result.rows, 0))
            for name, result in results.items()
            if name not in removal_by_split or not removal_by_split[name].are_all
        }
        self._n_truncated_rows += self._count_truncated_rows(file_group, results, removal_by_split)
        if not remaining_results:
            return
        removals_text = repr(
            (
                file_group,
                job_directory.run_number,
                sorted(removal_by_split.items(), key=itemgetter(0)),
            )
        )
        name_hash = blake2b(removals_text.encode(), digest_size=6)
        new_index_by_name = {name: i for i, name in enumerate(remaining_results)}
        retained_splits: dict[int, RetainedSplit] = {}
        for i, name in enumerate(results):
            removed = removal_by_split.get(name, RemovedOffsets())
            if (new_index := new_index_by_name.get(name)) is not None:
                retained_splits[i] = RetainedSplit(
                    new_index, removed.intervals, removed.truncated_from
                )
        for name in remaining_results.keys() & removal_by_split:
            rest = remaining_results[name]
            rest.offsets = _remaining_bounds(rest.offsets, removal_by_split[name])
        copied_files: list[ExportedFile] = []
        for output in job_directory.read_exported_files(file_group):
            new_name = _OUTPUT_NAME.sub(rf"\g<front>-{name_hash.hexdigest()}\g<end>", output.name)
            output_path = self._output_path(output.name)
            staging_directory = job_directory.job.staging_directory(job_directory.path)
            copied_file = copy_retained_rows(
                output, retained_splits, output_path, staging_directory, new_name, self.file_format
            )
            copied_files += [] if copied_file is None else [copied_file]
        self._n_truncated_rows += sum(
            retained_split.n_truncated_rows for retained_split in retained_splits.values()
        )
        if not copied_files:
            return
        results_in_order = list(remaining_results.values())
        for copied_file in copied_files:
            for split_index, _, n_rows in copied_file.spans:
                if split_index >= 0:
                    results_in_order[split_index].rows[copied_file.table] += n_rows
        first_result = next(iter(remaining_results.values()))
        first_result.outputs = [output.name for output in copied_files]
        first_result.files = [asdict(output) for output in copied_files]
        new_name = f"{file_group.removesuffix('.json')[:200]}-rest-{name_hash.hexdigest()}.json"
        stored_results = _with_partial_splits_undone(remaining_results, removal_by_split)
        write_json_file(f"{job_directory.results_directory}/{new_name}", stored_results)
        yield new_name

    def _count_truncated_rows(
        self,
        file_group: str,
        results: Mapping[str, StoredResult],
        removal_by_split: Mapping[str, RemovedOffsets],
    ) -> int:
        """The number of rows that truncations removed of inputs of which all rows are removed."""
        truncation_by_split = {
            i: removal_by_split[name].truncated_from
            for i, name in enumerate(results)
            if name in removal_by_split
            and removal_by_split[name].are_all
            and removal_by_split[name].truncated_from < MAX_OFFSET
        }
        if not truncation_by_split:
            return 0
        return sum(
            count_rows_from(
                output, truncation_by_split, self._output_path(output.name), self.file_format
            )
            for output in self.job_directory.read_exported_files(file_group)
        )

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
            for file in _list_table_files(f"{job_directory.path}/{table}"):
                file_name = file.path.rpartition("/")[2]
                if _OUTPUT_NAME.fullmatch(file_name) and file_name not in committed_names:
                    remove_file(file.path)


def _list_table_files(directory: str) -> list[StoredFile]:
    """The files under a table's directory; none if it does not exist. Raises InputError."""
    try:
        table_files = list(iter_files(directory))
    except InputError as error:
        if error.is_missing:
            return []
        raise
    for file in table_files:
        if file.error:
            raise InputError(f"{file.path}: {file.error}")
    return table_files


def _with_partial_splits_undone(
    results: Mapping[str, StoredResult], removal_by_split: Mapping[str, RemovedOffsets]
) -> dict[str, StoredResult]:
    """Results by split, under other names where rows were removed: these inputs are not done, and
    are read again when they can be. The rows may have come from a replica that then is not used."""
    return {
        f"{name}-rest" if name in removal_by_split else name: result
        for name, result in results.items()
    }


def _remaining_bounds(bounds: list[int | None], removed: RemovedOffsets) -> list[int | None]:
    """The first and last offset of a result's rows without the removed ones."""
    first_offset, last_offset = bounds
    if first_offset is None or last_offset is None:
        return bounds
    remaining_intervals = subtract_intervals([(first_offset, last_offset)], removed.intervals)
    if not remaining_intervals:
        return [None, None]
    return [remaining_intervals[0][0], remaining_intervals[-1][1]]


def _is_below_any(path: str, input_paths: Iterable[str]) -> bool:
    """Whether a file is one of some inputs, or below one."""
    return any(is_path_or_subpath(path, input_path) for input_path in input_paths)
