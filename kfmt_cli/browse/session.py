"""The state of the browser: the selected tree node, its log, batch and record, findings and search
hits. It does not depend on a screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kfmt_cli.browse.batch_content import BatchContent
from kfmt_cli.browse.batch_positions import Outline
from kfmt_cli.browse.checked import FoundInPartition
from kfmt_cli.browse.command_line import ViewKind, ViewState
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind, file_node
from kfmt_cli.browse.log_search import Hit, SoughtText
from kfmt_cli.browse.shown_log import ShownLog
from kfmt_cli.browse.wanted_batches import WantedBatches
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.times import milliseconds
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.tree import listing, topic_of
from kfmt_cli.errors import InputError, KfmtError, UsageError
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.render.style import safe
from kfmt_cli.topics import decoder_for
from kfmt_cli.topics.decoder import Decoder

OFFSET, TIME, BYTE = "offset", "time", "byte"


@dataclass(frozen=True, slots=True)
class Goal:
    """A place in a log to go to."""

    kind: str
    """`OFFSET`, `TIME` or `BYTE`."""
    value: int
    record: int | None = None
    """The offset of the record to select there."""


def goal_of(words: str) -> Goal:
    """A place as typed: 700, b7702, 0x1e16, 2023-11-14T22:20, now-1h; raises UsageError."""
    text = words.strip().lower().replace(" ", "")
    digits = text.removeprefix("byte").removeprefix("b")
    try:
        if digits.startswith("0x"):
            return Goal(BYTE, int(digits, 16))
        if text != digits:
            return Goal(BYTE, int(digits))
        if text.isdigit():
            return Goal(OFFSET, int(text))
    except ValueError:
        raise UsageError(f"{words!r} is not a byte position such as b7702 or 0x1e16") from None
    return Goal(TIME, milliseconds("a time", words.strip()))


@dataclass
class Session:
    """The state of the browser."""

    top: DiskNode
    decoder: Decoder | None = None
    """Decodes keys and values, if requested."""
    decoding: tuple[str, ...] = ()
    """The options that requested it."""
    topic: str | None = None
    limit: Limit = field(default_factory=Limit)
    node: DiskNode | None = None
    log: ShownLog | None = None
    content: BatchContent | None = None
    place: Fields | None = None
    record: int | None = None
    """The index of the selected record; None if the batch header is selected."""
    wanted: WantedBatches = field(default_factory=WantedBatches)
    trouble: str = ""
    """Why the opened node cannot be shown."""
    checked: dict[str, FoundInPartition] = field(default_factory=dict)
    """The results of checks, by the path of the partition or log."""
    finding: Finding | None = None
    """The finding last visited."""
    sought: SoughtText | None = None
    sought_in: DiskNode | None = None
    """The partition, or the log outside any partition, that was searched."""
    hits: list[Hit] = field(default_factory=list)
    hit_at: int = -1
    troubles: list[str] = field(default_factory=list)
    """Errors from reading the given paths."""

    def __post_init__(self) -> None:
        self._parents: dict[int, DiskNode] = {}
        self._by_name: dict[str, DiskNode] = {}
        self._index(self.top)

    def _index(self, node: DiskNode) -> None:
        if node.file is not None:
            self._by_name[node.name] = node
        for child in node.children:
            self._parents[id(child)] = node
            self._index(child)

    def partition_of(self, node: DiskNode) -> DiskNode:
        """The partition that a node belongs to, otherwise the node itself."""
        way = [*self.above(node), node]
        return next((each for each in way if each.kind is NodeKind.PARTITION), node)

    def parent_of(self, node: DiskNode) -> DiskNode | None:
        """A node's parent."""
        return self._parents.get(id(node))

    def above(self, node: DiskNode) -> list[DiskNode]:
        """A node's ancestors, from the top."""
        found: list[DiskNode] = []
        parent = self.parent_of(node)
        while parent is not None:
            found.insert(0, parent)
            parent = self.parent_of(parent)
        return found

    def file_named(self, name: str) -> DiskNode | None:
        """The node of a file, by the name that findings use."""
        return self._by_name.get(name)

    # Opening.

    @property
    def shown_log(self) -> ShownLog:
        """The open log, where there must be one."""
        assert self.log is not None
        return self.log

    @property
    def shown_file(self) -> Input:
        """The file of the log."""
        assert self.node is not None
        assert self.node.file is not None
        return self.node.file

    def open(self, node: DiskNode, width: int) -> None:
        """Open a log; if it cannot be read, `trouble` says why."""
        self.node = node
        self.content = self.place = self.record = self.log = None
        self.trouble = ""
        if self.partition_of(node) is not self.sought_in:
            self.forget_hits()
        try:
            outline = Outline(self.shown_file, self.wanted)
            self.log = ShownLog(outline, width)
        except KfmtError as error:
            self.trouble = safe(str(error))

    def forget_hits(self) -> None:
        """Forget the last search and its hits."""
        self.hits, self.hit_at, self.sought, self.sought_in = [], -1, None, None

    def later_log(self) -> DiskNode | None:
        """The log after the open one, if the broker has rolled since; adds it to the tree."""
        node = self.node
        if node is None or node.file is None or node.file.base_offset is None:
            return None
        above = self.parent_of(node)
        try:
            logs = listing(str(Path(node.path).parent)).logs
        except InputError:
            return None
        found = [log for log in logs if log.base > node.file.base_offset]
        known = None if not found else self.file_named(found[0].name)
        if not found or above is None or known is not None:
            return known
        made = file_node(found[0])
        above.children.insert(above.children.index(node) + 1, made)
        self._parents[id(made)] = above
        self._index(made)
        return made

    def select_batch(self, row: int) -> None:
        """Select the batch of a row."""
        log, file = self.shown_log, self.shown_file
        self.record, self.trouble = None, ""
        try:
            block, i = log.find(row)
            self.place = log.place(row)
            decoder = self.decoder or decoder_for(self.topic or topic_of(file))
            self.content = BatchContent(file, block, i, decoder, self.limit)
        except KfmtError as error:
            self.content = None
            self.trouble = safe(str(error))

    def row_of(self, goal: Goal) -> int | None:
        """The row of a place; None if the outline does not reach it yet."""
        log = self.shown_log
        rows = {BYTE: log.row_at, TIME: log.row_of_time, OFFSET: log.row_of_offset}
        return rows[goal.kind](goal.value)

    # Findings.

    @property
    def all_findings(self) -> list[Finding]:
        """The findings of everything checked, in the order of the tree."""
        return [
            finding
            for node in list(self.top.checkable()) or [self.top]
            if node.path in self.checked
            for finding in self.checked[node.path].findings
        ]

    @property
    def n_left_out(self) -> int:
        """How many findings were counted only."""
        return sum(held.left_out.total() for held in self.checked.values())

    @property
    def gone_through(self) -> list[Finding]:
        """The findings to step through: notes only if there is nothing else."""
        every = self.all_findings
        worse = [finding for finding in every if finding.code.severity is not Severity.NOTE]
        return worse or every

    def next_finding(self, by: int) -> Finding | None:
        """The next or previous finding; wraps around at either end."""
        found = self.gone_through
        if not found:
            self.finding = None
            return None
        here = [i for i, finding in enumerate(found) if finding is self.finding]
        at = (here[0] + by) % len(found) if here else (0 if by > 0 else len(found) - 1)
        self.finding = found[at]
        return self.finding

    # The command line.

    def state(self, shown: ViewKind, first: int = 0, last: int = 0) -> ViewState:
        """The state of the screen: rows first..last-1 of the batches or the records."""
        node, place, content = self.node, self.place, self.content
        low = high = offset = None
        if shown is ViewKind.BATCHES and self.log is not None and last > first:
            low, high = self._offsets(first, last)
        elif content is not None and content.n_records:
            numbers = (first, last - 1)
            if shown is ViewKind.PAYLOAD or shown is ViewKind.FIELDS:
                numbers = (self.record or 0, self.record or 0)
            low, high = (content.offset(number) for number in numbers)
            offset = content.offset(self.record) if self.record is not None else None
        topic = () if self.topic is None else ("--topic", self.topic)
        return ViewState(
            shown,
            "" if node is None else node.name,
            low,
            high,
            None if place is None else place.position,
            offset,
            self.wanted,
            decoding=(*topic, *self.decoding),
        )

    def _offsets(self, first: int, last: int) -> tuple[int | None, int | None]:
        """The offsets of some rows of batches; None if they do not increase."""
        log = self.shown_log
        try:
            front, end = log.place(first), log.place(last - 1)
        except KfmtError:
            return None, None
        low = front.base_offset if front.has_base_offset else front.last_offset
        return (low, end.last_offset) if low <= end.last_offset else (None, None)
