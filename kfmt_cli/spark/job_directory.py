"""A job's directory: its plan and its results.

`_kfmt/job.json` describes the job, `_kfmt/plan.json` how inputs are split. `_kfmt/done` has a file
per task, with the results of its splits. A split with a stored result is not processed again, so an
interrupted job continues; inputs that have changed are reprocessed.

An unchanged input keeps its splits. They are stored, in files of `_kfmt/plan`, only for inputs with
several splits: a file that was not split is never split by a later run, as the split size only
grows.

An export is a table with a history (`spark/lake/lake_table.py`): a commit lists the files that the
table consists of, and only the next commit changes them.

Results are read on demand (`spark/results.py`): for each split, the driver keeps only the location
of its result.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from kfmt_cli.arrow.export.atomic_files import (
    list_file_names,
    read_json_file,
    remove_file,
    write_json_file,
)
from kfmt_cli.arrow.export.lake_options import ExportedFile
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import FileSplit, compute_split_points, format_split_name
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.execution.read_request import ReadRequest, bytes_per_task
from kfmt_cli.rows.table_types import ADDED_COLUMNS
from kfmt_cli.spark.job import JobDefinition, StoredResult, split_identity
from kfmt_cli.spark.lake.change_files import (
    ChangeFile,
    append_changes,
    delete_unlisted_files,
    iter_changed_values,
)
from kfmt_cli.spark.results import ResultFiles

JOB_VERSION = 10
RC1_JOB_VERSION = 9  # of 1.0.0rc1: results are the same, some options have other texts
EXPORT_JOB_NAME = "export"
NO_RESULT = -1


def result_file_name(splits: Sequence[FileSplit], run_number: int) -> str:
    """The name of the file for the results of some splits in a run."""
    count_suffix = f"-and-{len(splits) - 1}" if len(splits) > 1 else ""
    name_hash = blake2b(str(run_number).encode(), digest_size=6)
    for split in splits:
        split_values = split.path, split.start, split.end, split.file_size, split.modified_ns
        name_hash.update(repr(split_values).encode(errors="backslashreplace"))
    split_name = format_split_name(splits[0].path, splits[0].start)
    return f"{split_name}{count_suffix}-{name_hash.hexdigest()}.json"


def intermediate_file_name(splits: Sequence[FileSplit]) -> str:
    """The name of the file for intermediate rows of some splits in a job's directory, which readers
    of its tables do not see."""
    return f"_kfmt/rows/{result_file_name(splits, 0).removesuffix('.json')}.arrow"


@dataclass(slots=True)
class JobDirectory:
    """The directory of a job."""

    path: str
    job: JobDefinition
    committed_result_files: frozenset[str] = frozenset()
    """The result files of the table's last commit."""
    run_number: int = 0
    """The number of the run; part of the names of all its files."""
    splits: FileSplits = field(default_factory=FileSplits)
    """All splits to process."""
    is_dry_run: bool = False
    """Whether nothing is written or deleted."""
    stale_splits_by_file: dict[str, list[str]] = field(default_factory=dict)
    """By committed result file: its splits whose input has changed, is gone, or is not part of this
    run."""
    missing_result_files: set[str] = field(default_factory=set)
    """The committed result files that are missing or incomplete."""
    missing_columns: frozenset[str] = frozenset()
    """The columns of records that were added to kfmt after the directory was created."""
    _is_new: bool = True
    """Whether the directory has no job yet."""
    _request: ReadRequest = field(default_factory=ReadRequest)
    _task_bytes: int = 0
    """Target bytes per split."""
    _plan_files: tuple[ChangeFile, ...] = ()
    """The files of the plan."""
    _result_file_names: list[str] = field(default_factory=list)
    """The names of the files with results."""
    _result_file_indexes: array[int] = field(default_factory=lambda: array("i"))
    """For each split, the index of the file with its result, or `NO_RESULT`."""
    _result_files: ResultFiles = field(init=False)

    def __post_init__(self) -> None:
        self._result_files = ResultFiles(self.results_directory)

    @property
    def results_directory(self) -> str:
        """The directory of the results."""
        return f"{self.path}/_kfmt/done"

    @property
    def _plan_path(self) -> str:
        return f"{self.path}/_kfmt/plan"

    @property
    def _job_path(self) -> str:
        return f"{self.path}/_kfmt/job.json"

    def _describe_job(self, version: int) -> dict[str, Any]:
        """The description of this job that a version of kfmt's state has."""
        rc1_options = self.job.rc1_options if version == RC1_JOB_VERSION else {}
        options = {**self.job.options, **rc1_options}
        return {"version": version, "job": self.job.name, "options": options}

    def check_stored_job(self) -> None:
        """Check that the directory is this job's or new; raises UsageError if it is not."""
        stored_description = read_json_file(self._job_path)
        if stored_description is None and list_file_names(self.path) - {"_kfmt"}:
            raise UsageError(f"{self.path}: not empty and not a kfmt pipeline directory")
        if stored_description is not None:
            self.missing_columns = ADDED_COLUMNS - {*stored_description.pop("added_columns", ())}
            is_rc1 = stored_description.get("version") == RC1_JOB_VERSION
            own_description = self._describe_job(RC1_JOB_VERSION if is_rc1 else JOB_VERSION)
            if stored_description != json.loads(json.dumps(own_description)):
                difference = _describe_difference(stored_description, own_description)
                raise UsageError(f"{self.path}: {difference}; choose another --to")
        self._is_new = stored_description is None

    def plan_splits(self, request: ReadRequest, files: FileSplits) -> None:
        """Split the inputs; unchanged inputs keep their previous splits. Raises InputError."""
        self._request = request
        previous_plan = read_json_file(f"{self._plan_path}.json") or {"share": 0, "parts": []}
        self._task_bytes = previous_plan["share"]
        self._plan_files = tuple(ChangeFile(**fields) for fields in previous_plan["parts"])
        task_bytes = min(
            request.max_split_bytes, max(bytes_per_task(request, files), self._task_bytes)
        )
        previous_points_by_path = dict(iter_changed_values(self._plan_path, self._plan_files))
        changed_points_by_path: dict[str, list[int] | None] = {}

        def find_split_points(file: FileSplit) -> Sequence[int]:
            stored_size, stored_modified_ns, *stored_points = previous_points_by_path.pop(
                file.path, None
            ) or (
                NO_RESULT,
                NO_RESULT,
            )
            if (stored_size, stored_modified_ns) == (file.file_size, file.modified_ns):
                return stored_points
            new_points = compute_split_points(file, task_bytes)
            if len(new_points) > 2:
                changed_points_by_path[file.path] = [file.file_size, file.modified_ns, *new_points]
            elif stored_size != NO_RESULT:
                changed_points_by_path[file.path] = None
            return new_points

        self.splits = files.divide_splits(find_split_points)
        changed_points_by_path |= {
            path: None for path, points in previous_points_by_path.items() if points is not None
        }
        self._write_plan(task_bytes, changed_points_by_path)
        self._match_stored_results()

    def _write_plan(
        self, task_bytes: int, changed_points_by_path: Mapping[str, list[int] | None]
    ) -> None:
        """Claim the directory, and write the changes to the plan."""
        has_same_task_bytes, self._task_bytes = task_bytes == self._task_bytes, task_bytes
        if self.is_dry_run:
            return
        if self._is_new:
            description = self._describe_job(JOB_VERSION)
            if self.job.name == EXPORT_JOB_NAME:
                description["added_columns"] = sorted(ADDED_COLUMNS)
            write_json_file(self._job_path, description)
            self._is_new = False
        previous_plan_files = self._plan_files
        self._plan_files = append_changes(
            self._plan_path, previous_plan_files, self.run_number, changed_points_by_path.items()
        )
        if self._plan_files != previous_plan_files or not has_same_task_bytes:
            parts = [asdict(file) for file in self._plan_files]
            write_json_file(f"{self._plan_path}.json", {"share": task_bytes, "parts": parts})
            delete_unlisted_files(self._plan_path, self._plan_files)

    def _match_stored_results(self) -> None:
        """Find the stored results.

        Deletes each uncommitted file with a result that this run cannot use, because its input has
        changed or is missing, or because a committed file has a result for the same split. The
        other results in the file, which were written together, are lost with it.
        """
        self._result_file_indexes = array("i", [NO_RESULT]) * len(self.splits)
        self._result_file_names = []
        self.stale_splits_by_file = defaultdict(list)
        file_names = {
            name for name in list_file_names(self.results_directory) if name.endswith(".json")
        }
        self.missing_result_files = set(self.committed_result_files - file_names)
        self._result_files.cache_files(file_names)
        indexed_splits = enumerate(self.splits) if file_names else ()
        split_index_by_name = {
            format_split_name(split.path, split.start): i for i, split in indexed_splits
        }
        for file_name in (
            *sorted(file_names & self.committed_result_files),
            *sorted(file_names - self.committed_result_files),
        ):
            result_by_split_name = self.read_results(file_name)
            if not result_by_split_name and file_name in self.committed_result_files:
                self.missing_result_files.add(file_name)
            split_indexes = [
                split_index_by_name.get(split_name, NO_RESULT)
                for split_name in result_by_split_name
            ]
            are_results_valid = [
                i != NO_RESULT
                and self._result_file_indexes[i] == NO_RESULT
                and result.about == split_identity(self.splits[i], self._request)
                for i, result in zip(split_indexes, result_by_split_name.values(), strict=True)
            ]
            if file_name not in self.committed_result_files and not all(are_results_valid):
                self.remove_results(file_name)
                continue
            for i, stored_split_name, is_valid in zip(
                split_indexes, result_by_split_name, are_results_valid, strict=True
            ):
                if is_valid:
                    self._result_file_indexes[i] = len(self._result_file_names)
                else:
                    self.stale_splits_by_file[file_name].append(stored_split_name)
            self._result_file_names.append(file_name)

    def read_results(self, file_name: str) -> dict[str, StoredResult]:
        """The results in a file, by split name; none if it is missing or incomplete. Raises
        InputError."""
        return self._result_files.read_results(file_name)

    def read_exported_files(self, file_name: str) -> list[ExportedFile]:
        """The files that were written with the results in a file."""
        results = self.read_results(file_name).values()
        return [ExportedFile(**fields) for result in results for fields in result.get("files", ())]

    def remove_results(self, file_name: str) -> None:
        """Delete a result file, and the outputs written with its results."""
        if self.is_dry_run:
            return
        for result in self.read_results(file_name).values():
            for output_name in result.get("outputs", ()):
                remove_file(f"{self.job.staging_directory(self.path)}/{output_name}")
                remove_file(f"{self.path}/{output_name}")
        self._result_files.drop_cached_file(file_name)
        remove_file(f"{self.results_directory}/{file_name}")

    def undo_splits(self, paths: set[str]) -> None:
        """Undo the splits of some files; reprocess all splits with results in the same files."""
        merged_splits = self.splits.select_where(
            lambda split: split.path not in paths or split.start == 0
        )
        self.splits = merged_splits.divide_splits(
            lambda split: (0, split.file_size) if split.path in paths else (split.start, split.end)
        )
        whole_files = self.splits.select_where(lambda split: split.path in paths)
        self._write_plan(
            self._task_bytes,
            {
                split.path: [split.file_size, split.modified_ns, 0, split.file_size]
                for split in whole_files
            },
        )
        self._match_stored_results()

    def find_unprocessed_splits(self) -> array[int]:
        """The indexes of the unprocessed splits."""
        return array(
            "I",
            (
                i
                for i, file_index in enumerate(self._result_file_indexes)
                if file_index == NO_RESULT
            ),
        )

    def record_results(
        self, split_indexes: array[int], splits_by_task: Iterable[Sequence[FileSplit]]
    ) -> None:
        """Record the results of processed splits. splits_by_task: the splits at `split_indexes`, by
        task."""
        existing_file_names = list_file_names(self.results_directory)
        start_index = 0
        n_previous_files = len(self._result_file_names)
        for splits in splits_by_task:
            file_name = result_file_name(splits, self.run_number)
            if file_name in existing_file_names:
                for i in split_indexes[start_index : start_index + len(splits)]:
                    self._result_file_indexes[i] = len(self._result_file_names)
                self._result_file_names.append(file_name)
            start_index += len(splits)
        self._result_files.cache_files(self._result_file_names[n_previous_files:])

    def list_result_files(self) -> list[str]:
        """The files with results of this run's splits, in the order of the splits."""
        return [
            self._result_file_names[i]
            for i in dict.fromkeys(self._result_file_indexes)
            if i != NO_RESULT
        ]

    def iter_results(
        self, predicate: Callable[[FileSplit], bool] = lambda _: True
    ) -> Iterator[tuple[FileSplit, StoredResult]]:
        """The results of all splits, or of those that meet a condition; raises UsageError if one is
        missing."""
        for split, file_index in zip(self.splits, self._result_file_indexes, strict=True):
            if predicate(split):
                result_by_split_name = (
                    {}
                    if file_index == NO_RESULT
                    else self.read_results(self._result_file_names[file_index])
                )
                result = result_by_split_name.get(format_split_name(split.path, split.start))
                if result is None:
                    raise UsageError(
                        f"{self.results_directory}: results written by tasks are not visible "
                        "here; --to must be shared by the driver and all executors"
                    )
                yield split, result


def _describe_difference(stored_job: dict[str, object], own_job: dict[str, object]) -> str:
    """A message: how a directory's stored job differs from this one."""
    if stored_job.get("job") != own_job["job"] or stored_job.get("version") != own_job["version"]:
        return f"contains results of another job or kfmt version ({stored_job.get('job')})"
    stored_options, own_options = stored_job.get("options"), own_job["options"]
    if not isinstance(stored_options, dict) or not isinstance(own_options, dict):
        return "contains results of a run with other options"
    differing_names = [
        name
        for name in own_options
        if stored_options.get(name) != json.loads(json.dumps(own_options[name]))
    ]
    differences = ", ".join(
        f"{name} was {stored_options.get(name)}, is now {own_options[name]}"
        for name in differing_names
    )
    return f"contains results of a run with other options ({differences})"
