"""The state of the browser: the selected tree node, its log, batch and record, findings and search
hits. It does not depend on a screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.browse.batch_filter import BatchFilter
from kfmt_cli.browse.block_index import BlockIndex
from kfmt_cli.browse.command_line import ViewKind, ViewState
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind, file_node
from kfmt_cli.browse.log_row_view import LogRowView
from kfmt_cli.browse.log_search import SearchHit, SearchTerm
from kfmt_cli.browse.partition_checks import NodeCheckResult
from kfmt_cli.browse.selected_batch import SelectedBatch
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.times import parse_time_ms
from kfmt_cli.disk.directory_listing import file_topic, list_directory
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.errors import InputError, KfmtError, UsageError
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.topics import find_decoder
from kfmt_cli.topics.decoder import Decoder

GO_TO_OFFSET, GO_TO_TIME, GO_TO_BYTE = "offset", "time", "byte"


@dataclass(frozen=True, slots=True)
class GoToTarget:
    """The offset, time or byte of a log to go to."""

    target_kind: str
    """`GO_TO_OFFSET`, `GO_TO_TIME` or `GO_TO_BYTE`."""
    target_value: int
    record_offset: int | None = None
    """The offset of the record to select in the batch."""


def parse_go_to_target(text: str) -> GoToTarget:
    """Parse a target as typed: 700, b7702, 0x1e16, 2023-11-14T22:20, now-1h; raises UsageError."""
    compact_text = text.strip().lower().replace(" ", "")
    digits = compact_text.removeprefix("byte").removeprefix("b")
    try:
        if digits.startswith("0x"):
            return GoToTarget(GO_TO_BYTE, int(digits, 16))
        number = parse_int(digits)
        if compact_text != digits and (number is None or number < 0):
            raise ValueError
        if number is not None and number >= 0:
            kind = GO_TO_OFFSET if compact_text == digits else GO_TO_BYTE
            return GoToTarget(kind, number)
    except ValueError:
        raise UsageError(f"{text!r} is not a byte position such as b7702 or 0x1e16") from None
    return GoToTarget(GO_TO_TIME, parse_time_ms("a time", text.strip()))


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
    opened_node: DiskNode | None = None
    log_view: LogRowView | None = None
    selected_batch: SelectedBatch | None = None
    batch_fields: FieldDict | None = None
    record_index: int | None = None
    """The index of the selected record; None if the batch header is selected."""
    batch_filter: BatchFilter = field(default_factory=BatchFilter)
    open_error: str = ""
    """Why the opened node cannot be shown."""
    check_results: dict[str, NodeCheckResult] = field(default_factory=dict)
    """The results of checks, by the path of the partition or log."""
    current_finding: Finding | None = None
    """The finding visited last."""
    search_term: SearchTerm | None = None
    search_scope: DiskNode | None = None
    """The partition, or the log outside any partition, that was searched."""
    search_hits: list[SearchHit] = field(default_factory=list)
    hit_index: int = -1
    read_errors: list[str] = field(default_factory=list)
    """Errors from reading the user's paths."""

    def __post_init__(self) -> None:
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
        ancestors_and_node = [*self.ancestors(node), node]
        return next(
            (ancestor for ancestor in ancestors_and_node if ancestor.kind is NodeKind.PARTITION),
            node,
        )

    def find_parent(self, node: DiskNode) -> DiskNode | None:
        """The parent of a node; None for the root."""
        return self._parent_by_id.get(id(node))

    def ancestors(self, node: DiskNode) -> list[DiskNode]:
        """The ancestors of a node, the root first."""
        ancestors: list[DiskNode] = []
        parent = self.find_parent(node)
        while parent is not None:
            ancestors.insert(0, parent)
            parent = self.find_parent(parent)
        return ancestors

    def find_file_node(self, file_name: str) -> DiskNode | None:
        """The node of a file, by the name that findings use."""
        return self._file_node_by_name.get(file_name)

    # Opening.

    @property
    def required_log_view(self) -> LogRowView:
        """The open log; asserts that there is one."""
        assert self.log_view is not None
        return self.log_view

    @property
    def opened_file(self) -> InputFile:
        """The file of the open log; asserts that there is one."""
        assert self.opened_node is not None
        assert self.opened_node.file is not None
        return self.opened_node.file

    def open_log(self, node: DiskNode, width: int) -> None:
        """Open a log; if it cannot be read, sets `open_error` to the reason."""
        self.opened_node = node
        self.selected_batch = self.batch_fields = self.record_index = self.log_view = None
        self.open_error = ""
        if self.enclosing_partition(node) is not self.search_scope:
            self.clear_search()
        try:
            block_index = BlockIndex(self.opened_file, self.batch_filter)
            self.log_view = LogRowView(block_index, width)
        except KfmtError as error:
            self.open_error = escape_unprintable(str(error))

    def clear_search(self) -> None:
        """Forget the last search and its hits."""
        self.search_hits, self.hit_index, self.search_term, self.search_scope = [], -1, None, None

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

    def select_batch(self, row: int) -> None:
        """Select the batch of a row; if it cannot be read, sets `open_error` to the reason."""
        log_view, file = self.required_log_view, self.opened_file
        self.record_index, self.open_error = None, ""
        try:
            block, batch_index = log_view.locate_batch(row)
            self.batch_fields = log_view.batch_fields(row)
            decoder = self.decoder or find_decoder(self.topic or file_topic(file))
            self.selected_batch = SelectedBatch(
                file, block, batch_index, decoder, self.decompression_limit
            )
        except KfmtError as error:
            self.selected_batch = None
            self.open_error = escape_unprintable(str(error))

    def find_target_row(self, target: GoToTarget) -> int | None:
        """The row of a target; None if the index does not reach it yet. Raises InputError."""
        log_view = self.required_log_view
        finder_by_kind = {
            GO_TO_BYTE: log_view.find_row_by_byte,
            GO_TO_TIME: log_view.find_row_by_time,
            GO_TO_OFFSET: log_view.find_row_by_offset,
        }
        return finder_by_kind[target.target_kind](target.target_value)

    # Findings.

    @property
    def all_findings(self) -> list[Finding]:
        """The findings of everything checked, in the order of the tree."""
        return [
            finding
            for node in list(self.root.iter_checkable_nodes()) or [self.root]
            if node.path in self.check_results
            for finding in self.check_results[node.path].findings
        ]

    @property
    def n_suppressed(self) -> int:
        """The number of suppressed findings, which were only counted."""
        return sum(result.suppressed_by_severity.total() for result in self.check_results.values())

    @property
    def navigable_findings(self) -> list[Finding]:
        """The findings to step through: notes only if there is nothing else."""
        findings = self.all_findings
        problems = [finding for finding in findings if finding.code.severity is not Severity.NOTE]
        return problems or findings

    def select_next_finding(self, step: int) -> Finding | None:
        """The next or previous finding; wraps around at either end."""
        findings = self.navigable_findings
        if not findings:
            self.current_finding = None
            return None
        current_indexes = [
            i for i, finding in enumerate(findings) if finding is self.current_finding
        ]
        next_index = (
            (current_indexes[0] + step) % len(findings)
            if current_indexes
            else (0 if step > 0 else len(findings) - 1)
        )
        self.current_finding = findings[next_index]
        return self.current_finding

    # The command line.

    def view_state(self, view_kind: ViewKind, first_row: int = 0, end_row: int = 0) -> ViewState:
        """The state of the screen: rows first..last-1 of the batches or the records."""
        opened_node, batch_fields, selected_batch = (
            self.opened_node,
            self.batch_fields,
            self.selected_batch,
        )
        first_offset = last_offset = record_offset = None
        if view_kind is ViewKind.BATCHES and self.log_view is not None and end_row > first_row:
            first_offset, last_offset = self._offset_bounds(first_row, end_row)
        elif selected_batch is not None and selected_batch.n_records:
            record_indexes = (first_row, end_row - 1)
            if view_kind is ViewKind.PAYLOAD or view_kind is ViewKind.FIELDS:
                record_indexes = (self.record_index or 0, self.record_index or 0)
            first_offset, last_offset = (
                selected_batch.record_offset(record_index) for record_index in record_indexes
            )
            record_offset = (
                selected_batch.record_offset(self.record_index)
                if self.record_index is not None
                else None
            )
        topic_option = () if self.topic is None else ("--topic", self.topic)
        return ViewState(
            view_kind,
            "" if opened_node is None else opened_node.display_path,
            first_offset,
            last_offset,
            None if batch_fields is None else batch_fields.position,
            record_offset,
            self.batch_filter,
            decoding_options=(*topic_option, *self.decoding_options),
        )

    def _offset_bounds(self, first_row: int, end_row: int) -> tuple[int | None, int | None]:
        """The first and last offset of rows first..last-1; None if they do not increase or cannot
        be read."""
        log_view = self.required_log_view
        try:
            first_batch, last_batch = (
                log_view.batch_fields(first_row),
                log_view.batch_fields(end_row - 1),
            )
        except KfmtError:
            return None, None
        first_offset = (
            first_batch.base_offset if first_batch.has_base_offset else first_batch.last_offset
        )
        return (
            (first_offset, last_batch.last_offset)
            if first_offset <= last_batch.last_offset
            else (None, None)
        )
