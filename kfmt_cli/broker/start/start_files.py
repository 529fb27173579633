"""The files of a partition during a start: which are deleted, and which replace others.

Source: `LogLoader.removeTempFilesAndCollectSwapFiles`, `LogLoader.load`.
"""

from __future__ import annotations

from kfmt_cli.broker.start.recovery_segment import RecoverySegment
from kfmt_cli.broker.start.stored_batches import StartError
from kfmt_cli.broker.version import KafkaVersion
from kfmt_cli.disk.directory_listing import DirectoryListing, file_size
from kfmt_cli.disk.file_names import MAX_OFFSET, parse_offset_name
from kfmt_cli.disk.kinds.kind import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX

_DELETED_KRAFT_SNAPSHOT = f".checkpoint{DELETED_SUFFIX}"


class StartFiles:
    """The files by name; nothing is changed on the disk.

    file_by_name: the file to read for each name; a swapped file keeps its old path. deleted: the
    names of the deleted files, as on the disk, in order. swapped_names: the new names of swapped
    files. replaced_size_by_name: the sizes in bytes of the files that they replaced, by name.
    created_indexes: indexes that the broker creates empty.
    """

    def __init__(self, directory: DirectoryListing, version: KafkaVersion) -> None:
        self._directory = directory
        self._version = version
        self.file_by_name = {
            name: directory.input_file(name)
            for name in directory.files
            if name not in directory.special_files
        }
        self.deleted: list[str] = []
        self.swapped_names: set[str] = set()
        self.replaced_size_by_name: dict[str, int] = {}
        self.created_indexes: set[str] = set()

    def parse_offset(self, name: str) -> int:
        """The offset at the start of a name; raises StartError."""
        name_offset = parse_offset_name(name)
        if name_offset is None:
            display_name = self._directory.input_file(name).name
            raise StartError(f"{display_name}: the name does not start with an offset")
        return name_offset

    def delete(self, name: str, *, is_replaced: bool = False, is_side_effect: bool = False) -> None:
        """Delete a file if it exists. is_replaced: whether another file takes its name.
        is_side_effect: whether it is deleted along with another file, and so not listed."""
        file = self.file_by_name.pop(name, None)
        if file is not None and is_replaced:
            self.replaced_size_by_name[name] = file_size(file)
        elif file is not None and not is_side_effect:
            is_on_disk = name in self._directory.files or name not in self.swapped_names
            self.deleted.append(name if is_on_disk else f"{name}{SWAP_SUFFIX}")

    def complete_swaps(self) -> None:
        """Delete unfinished files and complete interrupted segment replacements."""
        cleaned_offset_by_name: dict[str, int] = {}
        swap_offset_by_name: dict[str, int] = {}
        for name in list(self.file_by_name):
            if name.endswith(DELETED_SUFFIX) and not name.endswith(_DELETED_KRAFT_SNAPSHOT):
                self.delete(name)
            elif name.endswith(CLEANED_SUFFIX):
                cleaned_offset_by_name[name] = self.parse_offset(name)
            elif name.endswith(SWAP_SUFFIX):
                swap_offset_by_name[name] = self.parse_offset(name)
        min_cleaned_offset = min(cleaned_offset_by_name.values(), default=MAX_OFFSET + 1)
        unfinished_swaps = [
            name for name, offset in swap_offset_by_name.items() if offset >= min_cleaned_offset
        ]
        for name in (*unfinished_swaps, *cleaned_offset_by_name):
            self.delete(name)
        log_names = [
            name
            for name in swap_offset_by_name
            if name in self.file_by_name and name.endswith(f".log{SWAP_SUFFIX}")
        ]
        log_bounds = [self._log_bounds(name) for name in log_names]
        if log_bounds:
            first = min(first for first, _ in log_bounds)
            end = max(log_end for _, log_end in log_bounds)
            for name in list(self.file_by_name):
                name_offset = None if name.endswith(SWAP_SUFFIX) else parse_offset_name(name)
                if name_offset is not None and first <= name_offset < end:
                    # If a replaced log's other files are needed, they are rebuilt.
                    is_replaced = name + SWAP_SUFFIX in self.file_by_name
                    is_side_effect = not name.endswith(".log")
                    self.delete(name, is_replaced=is_replaced, is_side_effect=is_side_effect)
        for name in [name for name in self.file_by_name if name.endswith(SWAP_SUFFIX)]:
            target_name = name.removesuffix(SWAP_SUFFIX)
            self.delete(target_name, is_replaced=True)
            self.file_by_name[target_name] = self.file_by_name.pop(name)
            self.swapped_names.add(target_name)

    def _log_bounds(self, name: str) -> tuple[int, int]:
        """The base offset of a swapped log, and the end offset that a broker finds."""
        file = self.file_by_name[name]
        base = self.parse_offset(name)
        segment = RecoverySegment(base, file.name, file.path, file_size(file), None, self._version)
        index_name = name.removesuffix(f".log{SWAP_SUFFIX}") + ".index"
        segment.index_file = self.file_by_name.get(index_name + SWAP_SUFFIX)
        if segment.index_file is None:
            # The search for the log end offset creates an empty one, which replaces the other.
            self.created_indexes.add(index_name)
            self.delete(index_name, is_replaced=True)
        try:
            return base, segment.next_offset
        finally:
            segment.close()
