"""The files of a partition during a start: which are deleted, and which replace others.

Source: `LogLoader.removeTempFilesAndCollectSwapFiles`, `LogLoader.load`.
"""

from __future__ import annotations

from kfmt_cli.broker.log_reading.not_files import find_not_a_file, start_file_names
from kfmt_cli.broker.log_reading.stored_batches import StartError
from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.core.offsets import MAX_OFFSET
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size
from kfmt_cli.disk.file_names import parse_offset_name
from kfmt_cli.disk.kinds.kind import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX

_DELETED_KRAFT_SNAPSHOT = f".checkpoint{DELETED_SUFFIX}"


class StartFiles:
    """The files by name; nothing is changed on the disk.

    file_by_name: the file to read for each name; a swapped file keeps its old path. deleted_names:
    the names of the deleted files, as on the disk, in order. swapped_names: the new names of
    swapped files. replaced_size_by_name: the sizes in bytes of the files that they replaced, by
    name. created_index_names: indexes that the broker creates empty.
    """

    def __init__(self, directory: DirectoryListing, kafka_version: KafkaVersion) -> None:
        self._directory = directory
        self._kafka_version = kafka_version
        self.file_by_name = {
            name: directory.input_file(name) for name in start_file_names(directory)
        }
        self.deleted_names: list[str] = []
        self.swapped_names: set[str] = set()
        self.replaced_size_by_name: dict[str, int] = {}
        self.created_index_names: set[str] = set()

    def exists(self, file_name: str) -> bool:
        """Whether the broker finds a file, a directory or a pipe with this name."""
        not_a_file = find_not_a_file(self._directory, file_name)
        return file_name in self.file_by_name or (not_a_file is not None and not_a_file.exists)

    def parse_name_offset(self, file_name: str) -> int:
        """The offset at the start of a name; raises StartError."""
        name_offset = parse_offset_name(file_name)
        if name_offset is None:
            display_name = self._directory.input_file(file_name).name
            raise StartError(f"{display_name}: the name does not start with an offset")
        return name_offset

    def delete_file(
        self, file_name: str, *, is_replaced: bool = False, is_side_effect: bool = False
    ) -> None:
        """Delete a file if it exists. is_replaced: whether another file takes its name.
        is_side_effect: whether it is deleted along with another file, and so not listed."""
        file = self.file_by_name.pop(file_name, None)
        if file is not None and is_replaced:
            self.replaced_size_by_name[file_name] = file_size(file)
        elif file is not None and not is_side_effect:
            is_on_disk = file_name in self._directory.files or file_name not in self.swapped_names
            self.deleted_names.append(file_name if is_on_disk else f"{file_name}{SWAP_SUFFIX}")

    def complete_swaps(self) -> None:
        """Delete unfinished files and complete interrupted segment replacements."""
        cleaned_offset_by_name: dict[str, int] = {}
        swap_offset_by_name: dict[str, int] = {}
        for file_name in list(self.file_by_name):
            if file_name.endswith(DELETED_SUFFIX) and not file_name.endswith(
                _DELETED_KRAFT_SNAPSHOT
            ):
                self.delete_file(file_name)
            elif file_name.endswith(CLEANED_SUFFIX):
                cleaned_offset_by_name[file_name] = self.parse_name_offset(file_name)
            elif file_name.endswith(SWAP_SUFFIX):
                swap_offset_by_name[file_name] = self.parse_name_offset(file_name)
        min_cleaned_offset = min(cleaned_offset_by_name.values(), default=MAX_OFFSET + 1)
        unfinished_swap_names = [
            name for name, offset in swap_offset_by_name.items() if offset >= min_cleaned_offset
        ]
        for file_name in (*unfinished_swap_names, *cleaned_offset_by_name):
            self.delete_file(file_name)
        log_names = [
            name
            for name in swap_offset_by_name
            if name in self.file_by_name and name.endswith(f".log{SWAP_SUFFIX}")
        ]
        log_offset_ranges = [self._log_offset_range(name) for name in log_names]
        if log_offset_ranges:
            first_offset = min(first for first, _ in log_offset_ranges)
            end_offset = max(log_end_offset for _, log_end_offset in log_offset_ranges)
            for file_name in list(self.file_by_name):
                name_offset = (
                    None if file_name.endswith(SWAP_SUFFIX) else parse_offset_name(file_name)
                )
                if name_offset is not None and first_offset <= name_offset < end_offset:
                    # If a replaced log's other files are needed, they are rebuilt.
                    is_replaced = file_name + SWAP_SUFFIX in self.file_by_name
                    is_side_effect = not file_name.endswith(".log")
                    self.delete_file(
                        file_name, is_replaced=is_replaced, is_side_effect=is_side_effect
                    )
        for file_name in [name for name in self.file_by_name if name.endswith(SWAP_SUFFIX)]:
            target_name = file_name.removesuffix(SWAP_SUFFIX)
            self.delete_file(target_name, is_replaced=True)
            self.file_by_name[target_name] = self.file_by_name.pop(file_name)
            self.swapped_names.add(target_name)

    def _log_offset_range(self, log_name: str) -> tuple[int, int]:
        """The base offset of a swapped log, and the end offset that a broker finds."""
        log_file = self.file_by_name[log_name]
        base_offset = self.parse_name_offset(log_name)
        segment = RecoverySegment(
            base_offset,
            log_file.name,
            log_file.path,
            file_size(log_file),
            None,
            self._kafka_version,
        )
        index_name = log_name.removesuffix(f".log{SWAP_SUFFIX}") + ".index"
        segment.index_file = self.file_by_name.get(index_name + SWAP_SUFFIX)
        if segment.index_file is None:
            # The search for the log end offset creates an empty one, which replaces the other.
            self.created_index_names.add(index_name)
            self.delete_file(index_name, is_replaced=True)
        try:
            return base_offset, segment.next_offset
        finally:
            segment.close()
