"""The request that tells readers of splits what to read, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.credentials import PickledCredentials
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.disk.path_resolution import read_private_key
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import FILE_OPEN_COST_BYTES, MIB, FileSplit
from kfmt_cli.execution.file_splits import FileSplits
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.rows.column import Column
from kfmt_cli.rows.table_types import find_column, select_columns
from kfmt_cli.topics import find_decoder
from kfmt_cli.topics.decoder import Decoder
from kfmt_cli.topics.payloads import NO_DECLARATIONS, PayloadDeclarations

DEFAULT_MAX_SPLIT_BYTES = 128 * MIB
MIN_SPLIT_BYTES = 32 * MIB
DEFAULT_ARROW_BATCH_ROWS = 32768


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read, and how."""

    table: str = "records"
    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    selection_options: SelectionOptions = field(default_factory=SelectionOptions)
    """The selection of records."""
    selection_by_directory: Mapping[str, Selection] = field(default_factory=dict)
    """The selection by directory, if it depends on the logs."""
    topics: frozenset[str] = frozenset()
    max_split_bytes: int = DEFAULT_MAX_SPLIT_BYTES
    arrow_batch_rows: int = DEFAULT_ARROW_BATCH_ROWS
    fail_fast: bool = False
    raises_if_unreadable: bool = False
    """Whether an input that cannot be read is an error, instead of a finding."""
    reads_all_replicas: bool = True
    """Whether each record is read from all replicas of its partition, not from one of them."""
    decodes_records: bool = False
    uses_pushdown: bool = False
    parallelism: int = field(default_factory=available_cores)
    decompression_limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    payload_declarations: PayloadDeclarations = NO_DECLARATIONS
    """Formats of keys and values, for topics without their own decoder."""
    private_key: bytes | None = field(default=None, repr=False)
    """Contents of the private key file for encrypted segments in tiered storage."""
    credentials: PickledCredentials = field(
        default_factory=PickledCredentials, repr=False, compare=False
    )
    """The credentials from URLs, for other processes."""

    @property
    def output_columns(self) -> tuple[Column, ...]:
        """The columns of the result."""
        return select_columns(self.table, self.columns)

    def find_decoder(self, topic: str | None) -> Decoder | None:
        """The decoder for the keys and values of a topic; None if there is none."""
        return find_decoder(topic) or self.payload_declarations.decoder

    def includes_topic(self, topic: str | None) -> bool:
        """Whether the records of a topic are to be read."""
        return not self.topics or topic in self.topics

    def selection_for(self, split: FileSplit) -> Selection:
        """The selection of records in a split."""
        selection = self.selection_by_directory.get(
            split.directory, self.selection_options.selection
        )
        return (
            replace(selection, offset_intervals=split.offset_intervals)
            if split.offset_intervals
            else selection
        )


def bytes_per_task(request: ReadRequest, splits: FileSplits) -> int:
    """Bytes per task for about one task per core: MIN_SPLIT_BYTES to `max_split_bytes`."""
    total_bytes = splits.n_bytes + len(splits) * FILE_OPEN_COST_BYTES
    task_bytes = -(-total_bytes // max(request.parallelism, 1))
    return min(request.max_split_bytes, max(MIN_SPLIT_BYTES, task_bytes))


def build_request(
    request: ReadRequest, paths: Iterable[str], columns_text: str, topics_text: str
) -> ReadRequest:
    """The request with a command line's paths, columns and topics; raises UsageError.

    columns_text, topics_text: comma-separated names.
    """
    column_names = tuple(dict.fromkeys(parse_name_list(columns_text)))
    for column_name in column_names:
        if find_column("records", column_name) is None:
            raise UsageError(f"table records has no column {column_name!r}")
    return replace(
        request,
        paths=tuple(_absolute_path(path) for path in paths),
        columns=column_names,
        topics=frozenset(parse_name_list(topics_text)),
        private_key=read_private_key(),
    )


def parse_name_list(text: str) -> tuple[str, ...]:
    """Split comma-separated names, without empty ones."""
    return tuple(item_name.strip() for item_name in text.split(",") if item_name.strip())


def _absolute_path(path: str) -> str:
    """A local path made absolute, so that it is valid in every process."""
    is_process_independent = not is_local(path) or MOUNTS.find_tree_and_subpath(path) is not None
    return path if is_process_independent else str(Path(path).absolute())
