"""The partitions under the source of a salvage, and the other files to copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path, PurePath

from kfmt_cli.broker.start.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_START_CHECKPOINT
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.salvage.partition_logs import SalvagedPartition, base_offset_in_name
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.directory_listing import DirectoryListing, is_segment_log
from kfmt_cli.disk.file_names import directory_marker_suffix, parse_topic_partition
from kfmt_cli.disk.input_paths import directory_topic, resolve_path
from kfmt_cli.disk.kinds import META_PROPERTIES_KIND, PARTITION_METADATA_KIND, QUORUM_STATE_KIND
from kfmt_cli.disk.kinds.checkpoint import CHECKPOINT_KIND
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.disk.kinds.kind import SWAP_SUFFIX, InputFile
from kfmt_cli.disk.kinds.logs import DELETED_LOG_SUFFIX, KRAFT_SNAPSHOT_KIND, LOG_KIND
from kfmt_cli.disk.topic_filter import select_topics
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.render.style import escape_unprintable

# Files next to the logs that a broker reads and cannot rebuild. The other checkpoints state how far
# logs were flushed, replicated and compacted, which is no longer true of the output.
COPIED_KINDS = (META_PROPERTIES_KIND, PARTITION_METADATA_KIND, QUORUM_STATE_KIND)
COPIED_CHECKPOINTS = (LEADER_EPOCH_CHECKPOINT, LOG_START_CHECKPOINT)
DELETED_DIRECTORY = "deleted"  # for a deleted partition whose topic exists again


def _unused_directory(directory: PurePath, used_directories: set[str]) -> PurePath:
    """Where to restore a deleted partition: elsewhere if its topic was created again, and in a
    numbered directory if it was deleted several times."""
    parents = chain(("", DELETED_DIRECTORY), (f"{DELETED_DIRECTORY}-{n}" for n in count(2)))
    candidates = (directory.parent / parent / directory.name for parent in parents)
    return next(candidate for candidate in candidates if str(candidate) not in used_directories)


@dataclass(slots=True)
class SalvageSource:
    """Finds what to salvage under SRC."""

    run: CommandRun
    includes_deleted: bool
    """Also copy data that a broker marked as deleted."""
    files_to_copy: list[tuple[InputFile, PurePath]] = field(default_factory=list)
    """Files next to the logs, each with its directory under DST."""
    n_skipped_logs: int = 0
    n_deleted_logs: int = 0

    def find_partitions(self, source: str, topics: Sequence[str] = ()) -> list[SalvagedPartition]:
        """The partitions of SRC; raises InputError. topics: patterns; empty for all topics."""
        input_path = resolve_path(source)
        for reason in input_path.listing_errors:
            self.run.report_input_error(reason)
        if input_path.file is not None:
            if not is_segment_log(input_path.file):
                reason = "not named like a log segment (a 20-digit base offset)"
                raise InputError(f"{input_path.file.name}: {reason}")
            return [SalvagedPartition(PurePath(), [input_path.file])]
        topic_names = {directory_topic(listing) for listing in input_path.directories}
        selected_topics = select_topics(topics, topic_names)
        partitions = []
        output_directories = {listing.relative_path for listing in input_path.directories}
        for listing in input_path.directories:
            topic = directory_topic(listing)
            if topics and topic not in selected_topics and topic is not None:
                continue
            directory_name = Path(listing.path).name
            marker = directory_marker_suffix(directory_name)
            output_directory = PurePath(listing.relative_path)
            if marker == "delete" and self.includes_deleted and listing.path != source:
                topic, partition_index = parse_topic_partition(directory_name)
                output_directory = _unused_directory(
                    output_directory.with_name(f"{topic}-{partition_index}"), output_directories
                )
                output_directories.add(str(output_directory))
            elif marker and listing.path != source:
                reason = "marked by a broker as moved; name it as SRC to salvage it"
                if marker == "delete":
                    reason = "marked by a broker as deleted; use --deleted to bring it back"
                self.run.sink.write_to_stderr(
                    f"not copied: {escape_unprintable(listing.name)}: {reason}\n"
                )
                continue
            found_partitions = self._find_listed_partition(listing, output_directory)
            if not topics or topic is not None:  # of other directories, only files are copied
                partitions += found_partitions
        return partitions

    def rename_partitions(
        self, partitions: list[SalvagedPartition], source: str, topic: str
    ) -> list[SalvagedPartition]:
        """The same partitions in directories of another topic; raises UsageError unless all belong
        to one topic. Drops the files to copy that name the topic or its broker."""
        topic_partition_by_directory = {
            partition.output_directory: partition.topic_partition for partition in partitions
        }
        topics = {name for name, _ in topic_partition_by_directory.values()}
        has_one_topic = len(topics) == 1 and None not in topics
        if not has_one_topic or len({*topic_partition_by_directory.values()}) < len(partitions):
            requirement = "needs the partitions of one topic, in directories named TOPIC-PARTITION"
            raise UsageError(
                f"--as: {requirement}; {format_display_name(source)} has "
                f"{escape_unprintable(', '.join(sorted(map(str, topics))))}"
            )
        new_directory_by_old = {
            directory: PurePath(f"{topic}-{partition_index}")
            for directory, (_, partition_index) in topic_partition_by_directory.items()
        }
        self.files_to_copy = [
            (file, new_directory_by_old[directory])
            for file, directory in self.files_to_copy
            if directory in new_directory_by_old
            and file.kind in (CHECKPOINT_KIND, PRODUCER_SNAPSHOT_KIND)
        ]
        return [
            replace(partition, output_directory=new_directory_by_old[partition.output_directory])
            for partition in partitions
        ]

    def _find_listed_partition(
        self, listing: DirectoryListing, output_directory: PurePath
    ) -> list[SalvagedPartition]:
        files = [
            listing.input_file(file) for file in listing.files if file not in listing.special_files
        ]
        logs, other_logs = listing.logs, []
        for file in files:
            file_name = PurePath(file.path).name
            is_copied = file.kind in COPIED_KINDS or (
                file.kind is CHECKPOINT_KIND and file_name in COPIED_CHECKPOINTS
            )
            # Deleted records are below the log start offset.
            is_copied &= not (self.includes_deleted and file_name == LOG_START_CHECKPOINT)
            # A producer snapshot at the first log cannot be rebuilt from the logs.
            first_base_offset = logs[0].base_offset if logs else None
            is_copied |= (
                bool(first_base_offset)
                and file.kind is PRODUCER_SNAPSHOT_KIND
                and file.base_offset == first_base_offset
            )
            if is_copied or file.kind is KRAFT_SNAPSHOT_KIND:
                self.files_to_copy.append((file, output_directory))
            elif file.kind is LOG_KIND and not is_segment_log(file):
                if base_offset_in_name(file) is None or not file_name.endswith(
                    self._extra_log_suffixes
                ):
                    self.n_skipped_logs += 1
                    self.n_deleted_logs += file_name.endswith(DELETED_LOG_SUFFIX)
                else:
                    other_logs.append(file)
        return [SalvagedPartition(output_directory, logs, other_logs)] if logs or other_logs else []

    @property
    def _extra_log_suffixes(self) -> tuple[str, ...]:
        """Suffixes of the logs that are salvaged in addition to those in use."""
        suffixes = (LOG_KIND.suffix, f"{LOG_KIND.suffix}{SWAP_SUFFIX}")
        return (*suffixes, DELETED_LOG_SUFFIX) if self.includes_deleted else suffixes
