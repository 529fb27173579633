"""salvage, merge: the files next to the logs that a broker needs to serve a partition."""

from __future__ import annotations

from pathlib import PurePath

from kfmt_cli.broker.start.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CheckpointError,
    CheckpointNumberError,
    read_checkpoint_offsets,
    read_epoch_entries,
    read_valid_epoch_entries,
)
from kfmt_cli.broker.start.known_topic_id import NearbyTopicIds
from kfmt_cli.checks.log.checker import LogChecker
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.disk.directory_listing import DirectoryListing, classify_file
from kfmt_cli.disk.kinds import PARTITION_METADATA_KIND
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.findings.finding import Finding, has_errors, is_error
from kfmt_cli.writers.output import StagingDirectory, copy_file


def write_known_topic_id(
    staging: StagingDirectory,
    output_directory: PurePath,
    topic_ids: NearbyTopicIds,
    directory_path: str,
) -> None:
    """Write partition.metadata if it was not copied and the metadata log next to the source has the
    topic's id. directory_path: the source's directory. Raises OutputError."""
    names = [str(output_directory / name) for name in sorted(PARTITION_METADATA_KIND.names)]
    if any((staging.directory / name).exists() for name in names):
        return
    topic_id = topic_ids.find(directory_path)
    if topic_id is not None:
        with staging.create_file(names[0]) as output_file:
            output_file.write(f"version: 0\ntopic_id: {topic_id}".encode())


def drop_later_epochs(
    staging: StagingDirectory, output_directory: PurePath, log_end_offset: int
) -> None:
    """Drop the leader epochs that begin after the end of the written logs, as a broker does."""
    path = staging.directory / output_directory / LEADER_EPOCH_CHECKPOINT
    if not path.exists():
        return
    try:
        entries = read_epoch_entries(classify_file(str(path), str(path)))
    except (CheckpointError, CheckpointNumberError):
        return
    kept = [entry for entry in entries if entry[1] < log_end_offset]
    if len(kept) < len(entries):
        lines = ["0", str(len(kept)), *(f"{epoch} {offset}" for epoch, offset in kept), ""]
        path.write_text("\n".join(lines))


def find_damage(file: InputFile, limit: DecompressionLimit) -> tuple[bool, list[Finding]]:
    """Whether a file has errors, or a broker does not start with it; its findings. Raises
    InputError."""
    if file.kind.reader is not None:
        findings = list(file.read_contents().findings)
    else:
        findings = list(LogChecker(True, limit, 0).iter_findings(file))
    try:
        if file.path.endswith(LEADER_EPOCH_CHECKPOINT):
            read_valid_epoch_entries(file)
        elif file.path.endswith(LOG_START_CHECKPOINT):
            read_checkpoint_offsets(file)
    except (CheckpointError, CheckpointNumberError):
        return True, findings
    return any(map(is_error, findings)), findings


def copy_undamaged_file(
    run: CommandRun,
    staging: StagingDirectory,
    output_directory: PurePath,
    listing: DirectoryListing,
    file_names: frozenset[str],
) -> bool:
    """Copy the first undamaged file with one of some names; returns whether there is one."""
    for file_name in file_names.intersection(listing.regular_files):
        file = listing.input_file(file_name)
        with run.catch_input_errors():
            if file.kind.reader is None or not has_errors(file.kind.reader(file).findings):
                copy_file(staging, file, str(output_directory / file_name))
                return True
    return False
