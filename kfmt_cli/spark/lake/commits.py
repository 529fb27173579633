"""The commits of a table, `_kfmt/commits/N.json`, and its manifest, `_kfmt/manifest`.

A commit is one new file: it exists or not, and no two runs write the same one. It lists the parts
of the manifest, which have the inputs and files of each file group; a commit writes one part, with
its changes. `_kfmt/manifest.json` lists the parts of the last commit whose files are in place, and
these files: they are few, while there may be a million inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

from kfmt_cli.arrow.export.atomic_files import list_file_names, read_json_file, write_json_file
from kfmt_cli.errors import InputError, OutputError
from kfmt_cli.spark.lake import change_files
from kfmt_cli.spark.lake.change_files import ChangeFile, iter_changed_values

MANIFEST_VERSION = 2  # of the manifest


@dataclass(frozen=True, slots=True)
class TableCommit:
    """The state of a table after a run."""

    number: int = 0
    mode: str = ""
    inputs: tuple[str, ...] = ()
    """The paths of the run."""
    topics: tuple[str, ...] = ()
    """The topics of the run; empty for all."""
    parts: tuple[ChangeFile, ...] = ()
    """The files under `_kfmt/manifest` with the file groups that the table consists of."""
    time: str = ""


def read_newest_commit(output_directory: str) -> TableCommit:
    """The last commit of a table; number 0 if there is none. Raises InputError."""
    file_names = [
        file_name
        for file_name in list_file_names(f"{output_directory}/_kfmt/commits")
        if file_name.endswith(".json")
    ]
    return (
        read_commit(output_directory, int(max(file_names).removesuffix(".json")))
        if file_names
        else TableCommit()
    )


def read_commit(output_directory: str, commit_number: int) -> TableCommit:
    """A commit of a table; raises InputError."""
    if not commit_number:
        return TableCommit()
    path = f"{output_directory}/_kfmt/commits/{_commit_file_name(commit_number)}"
    fields = read_json_file(path)
    if fields is None:
        raise InputError(f"{path}: not a commit; the table cannot be read without it")
    tuple_fields = {name: tuple(fields[name]) for name in ("inputs", "topics")}
    part_files = tuple(ChangeFile(**part) for part in fields["parts"])
    return TableCommit(**{**fields, **tuple_fields, "parts": part_files})


def read_file_groups(output_directory: str, commit: TableCommit) -> dict[str, list[dict[str, Any]]]:
    """The file groups after a commit, named as their results under `_kfmt/done`, and the files of
    each; raises InputError."""
    files_by_group: dict[str, list[dict[str, Any]]] = {}
    for group_name, group_contents in iter_changed_values(
        _manifest_path(output_directory), commit.parts
    ):
        if group_contents is None:
            files_by_group.pop(group_name, None)
        else:
            files_by_group[group_name] = group_contents["outputs"]
    return files_by_group


def write_next_manifest(
    output_directory: str, previous_commit: TableCommit, changes: Iterable[tuple[str, Any]]
) -> TableCommit:
    """Write the manifest of the next commit; raises OutputError. changes: file groups with their
    inputs and files, or None."""
    commit_number = previous_commit.number + 1
    part_files = change_files.append_changes(
        _manifest_path(output_directory), previous_commit.parts, commit_number, changes
    )
    return replace(previous_commit, number=commit_number, parts=part_files)


def publish_manifest(
    output_directory: str, table_commit: TableCommit, file_rows: Iterable[dict[str, Any]]
) -> None:
    """Publish the manifest of a commit, and the list of its files; raises OutputError."""
    part_names = [f"manifest/{part.name}" for part in table_commit.parts]
    manifest_content = {
        "version": MANIFEST_VERSION,
        "commit": table_commit.number,
        "parts": part_names,
        "outputs": list(file_rows),
    }
    write_json_file(f"{_manifest_path(output_directory)}.json", manifest_content)


def read_manifest_number(output_directory: str) -> int:
    """The number of the commit that the manifest describes; 0 without a manifest. Raises
    InputError."""
    manifest = read_json_file(f"{_manifest_path(output_directory)}.json")
    commit_number = manifest.get("commit") if isinstance(manifest, dict) else None
    return commit_number if isinstance(commit_number, int) else 0


def delete_unlisted_parts(output_directory: str, table_commit: TableCommit) -> None:
    """Delete the parts of the manifest that a commit does not list."""
    change_files.delete_unlisted_files(_manifest_path(output_directory), table_commit.parts)


def _manifest_path(output_directory: str) -> str:
    return f"{output_directory}/_kfmt/manifest"


def write_commit(output_directory: str, table_commit: TableCommit) -> None:
    """Write a commit; raises OutputError if one with its number exists."""
    commits_directory = f"{output_directory}/_kfmt/commits"
    file_name = _commit_file_name(table_commit.number)
    if file_name in list_file_names(commits_directory):
        raise OutputError(f"{commits_directory}/{file_name}: another job already wrote this commit")
    written_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    write_json_file(
        f"{commits_directory}/{file_name}", {**asdict(table_commit), "time": written_at}
    )


def _commit_file_name(commit_number: int) -> str:
    return f"{commit_number:010}.json"
