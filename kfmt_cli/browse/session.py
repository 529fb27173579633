"""The state of the browser: the tree, the open log, its selected batch and record, the search. It
does not depend on a screen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from kfmt_cli.browse.batch_filter import BatchFilter
from kfmt_cli.browse.block_index import BlockIndex
from kfmt_cli.browse.command_line import ViewKind, ViewState
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind, file_node
from kfmt_cli.browse.log_row_view import LogRowView
from kfmt_cli.browse.log_search import SearchHit, SearchTerm
from kfmt_cli.browse.partition_checks import CheckState
from kfmt_cli.browse.selected_batch import SelectedBatch
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.directory_listing import file_topic, list_directory
from kfmt_cli.errors import InputError, KfmtError
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.topics import find_decoder
from kfmt_cli.topics.decoder import Decoder


@dataclass
class OpenedLog:
    """The open log, with the selected batch and record."""

    node: DiskNode
    log_view: LogRowView
    decoder: Decoder | None = None
    decompression_limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    batch_fields: FieldDict | None = None
    selected_batch: SelectedBatch | None = None
    record_index: int | None = None
    """The index of the selected record; None if the batch header is selected."""
    batch_error: str = ""
    """Why the selected batch cannot be read."""

    @property
    def block_index(self) -> BlockIndex:
        """The index of the log's batches."""
        return self.log_view.block_index

    @property
    def n_records(self) -> int:
        """The number of readable records in the selected batch."""
        return 0 if self.selected_batch is None else self.selected_batch.n_records

    def select_batch(self, row: int) -> None:
        """Select the batch of a row; if it cannot be read, sets `batch_error` to the reason."""
        self.record_index, self.batch_error = None, ""
        try:
            block, batch_index = self.log_view.locate_batch(row)
            self.batch_fields = self.log_view.batch_fields(row)
            self.selected_batch = SelectedBatch(
                self.block_index.file, block, batch_index, self.decoder, self.decompression_limit
            )
        except KfmtError as error:
            self.selected_batch = None
            self.batch_error = escape_unprintable(str(error))

    def offset_bounds(self, first_row: int, end_row: int) -> tuple[int | None, int | None]:
        """The first and last offset of rows first..last-1; None if they do not increase or cannot
        be read."""
        try:
            first_batch, last_batch = (
                self.log_view.batch_fields(row) for row in (first_row, end_row - 1)
            )
        except KfmtError:
            return None, None
        first_offset = (
            first_batch.base_offset if first_batch.has_base_offset else first_batch.last_offset
        )
        if first_offset > last_batch.last_offset:
            return None, None
        return first_offset, last_batch.last_offset


@dataclass
class SearchState:
    """The last search, and its hits so far."""

    term: SearchTerm
    scope: DiskNode
    """The partition, or the log outside any partition, that is searched."""
    hits: list[SearchHit] = field(default_factory=list)
    hit_index: int = -1

    @property
    def current_hit(self) -> SearchHit | None:
        """The hit visited last."""
        return self.hits[self.hit_index] if 0 <= self.hit_index < len(self.hits) else None


@dataclass
class BrowserSession:
    """The state of the browser."""

    root: DiskNode
    decoder: Decoder | None = None
    """The decoder of keys and values, if the options request one."""
    decoding_options: tuple[str, ...] = ()
    """The options that request the decoder."""
    topic: str | None = None
    decompression_limit: DecompressionLimit = field(default_factory=DecompressionLimit)
    read_errors: list[str] = field(default_factory=list)
    """Errors from reading the user's paths."""
    opened_node: DiskNode | None = None
    """The node of the open file."""
    open_error: str = ""
    """Why the opened node cannot be shown."""
    opened_log: OpenedLog | None = None
    batch_filter: BatchFilter = field(default_factory=BatchFilter)
    search: SearchState | None = None

    def __post_init__(self) -> None:
        self.checks = CheckState(self.root)
        self._parent_by_id: dict[int, DiskNode] = {}
        self._file_node_by_name: dict[str, DiskNode] = {}
        self._register_subtree(self.root)

    def _register_subtree(self, node: DiskNode) -> None:
        if node.file is not None:
            self._file_node_by_name[node.display_path] = node
        for child in node.children:
            self._parent_by_id[id(child)] = node
            self._register_subtree(child)

    def enclosing_partition(self, node: DiskNode) -> DiskNode:
        """The partition that a node belongs to, otherwise the node itself."""
        partitions = (each for each in self.ancestors(node) if each.kind is NodeKind.PARTITION)
        return next(partitions, node)

    def find_parent(self, node: DiskNode) -> DiskNode | None:
        """The parent of a node; None for the root."""
        return self._parent_by_id.get(id(node))

    def ancestors(self, node: DiskNode) -> list[DiskNode]:
        """The ancestors of a node, the root first."""
        parent = self.find_parent(node)
        return [] if parent is None else [*self.ancestors(parent), parent]

    def find_file_node(self, file_name: str) -> DiskNode | None:
        """The node of a file, by the name that findings use."""
        return self._file_node_by_name.get(file_name)

    def partition_logs(self, node: DiskNode) -> list[DiskNode]:
        """The logs of the partition at or above a node, or of the only partition under it; for a
        log outside any partition, the log."""
        partition = self.enclosing_partition(node)
        partitions = list(partition.iter_partitions())
        if len(partitions) == 1 and partition.file is None:
            partition = partitions[0]
        logs = partition.logs()
        return [node] if node.is_log and node not in logs else logs

    def node_mark(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a node in the tree, and its style."""
        if node.kind is NodeKind.FILE:
            return self.checks.file_mark(node, self.enclosing_partition(node))
        return self.checks.directory_mark(node)

    # Opening.

    def open_log(self, node: DiskNode, width: int) -> None:
        """Open a log; if it cannot be read, sets `open_error` to the reason."""
        self.opened_node, self.opened_log, self.open_error = node, None, ""
        if self.search is not None and self.enclosing_partition(node) is not self.search.scope:
            self.search = None
        if node.file is None:
            return
        try:
            log_view = LogRowView(BlockIndex(node.file, self.batch_filter), width)
            decoder = self.decoder or find_decoder(self.topic or file_topic(node.file))
            self.opened_log = OpenedLog(node, log_view, decoder, self.decompression_limit)
        except KfmtError as error:
            self.open_error = escape_unprintable(str(error))

    def forget_sizes(self, node: DiskNode) -> None:
        """Measure a node and its ancestors again, as a file has grown or appeared."""
        for changed_node in (*self.ancestors(node), node):
            vars(changed_node).pop("total_bytes", None)

    def add_rolled_log(self) -> DiskNode | None:
        """The log after the open one, if the broker has rolled since, otherwise None; adds a new
        log to the tree."""
        node = self.opened_node
        if node is None or node.file is None or node.file.base_offset is None:
            return None
        parent = self.find_parent(node)
        try:
            logs = list_directory(str(Path(node.path).parent)).logs
        except InputError:
            return None
        later_logs = [log for log in logs if log.base_offset_or_zero > node.file.base_offset]
        existing_node = None if not later_logs else self.find_file_node(later_logs[0].name)
        if not later_logs or parent is None or existing_node is not None:
            return existing_node
        new_node = file_node(later_logs[0])
        parent.children.insert(parent.children.index(node) + 1, new_node)
        self._parent_by_id[id(new_node)] = parent
        self._register_subtree(new_node)
        self.forget_sizes(new_node)
        return new_node

    # The command line.

    def view_state(self, view_kind: ViewKind, first_row: int = 0, end_row: int = 0) -> ViewState:
        """The state of the screen: rows first..last-1 of the batches or the records."""
        path = "" if self.opened_node is None else self.opened_node.display_path
        topic_option = () if self.topic is None else ("--topic", self.topic)
        decoding_options = (*topic_option, *self.decoding_options)
        opened_log = self.opened_log
        view_state = ViewState(
            view_kind, path, batch_filter=self.batch_filter, decoding_options=decoding_options
        )
        if opened_log is None:
            return view_state
        first_offset = last_offset = record_offset = None
        batch, record_index = opened_log.selected_batch, opened_log.record_index
        if view_kind is ViewKind.BATCHES and end_row > first_row:
            first_offset, last_offset = opened_log.offset_bounds(first_row, end_row)
        elif batch is not None and batch.n_records:
            record_indexes = (first_row, end_row - 1)
            if view_kind is ViewKind.PAYLOAD or view_kind is ViewKind.FIELDS:
                record_indexes = (record_index or 0, record_index or 0)
            first_offset, last_offset = map(batch.record_offset, record_indexes)
            if record_index is not None:
                record_offset = batch.record_offset(record_index)
        batch_fields = opened_log.batch_fields
        return replace(
            view_state,
            first_offset=first_offset,
            last_offset=last_offset,
            batch_position=None if batch_fields is None else batch_fields.position,
            record_offset=record_offset,
        )
