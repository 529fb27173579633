"""The content of a `report` page: objects of the JSON contract, by type.

For unbounded types, the page keeps the worst few thousand and counts the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.disk.kinds import UNKNOWN_KIND, classify_name
from kfmt_cli.disk.partition_path import with_location
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.columnar_rows import JsonObject
from kfmt_cli.rows.documents import REPORT_ROW, build_members

PageRow = FieldDict

# How many objects of a type are kept; other types are unlimited.
MAX_ROWS_BY_TYPE: Mapping[str, int] = {
    "finding": 4_000,
    "transaction": 3_000,
    "retention": 20_000,
    "roll": 5_000,
    "broker_start": 5_000,
    "committed_offset": 10_000,
    "group": 5_000,
}
MAX_COMMITTED_TRANSACTIONS = 1_000
COMMITTED_TRANSACTION_RANK = 4  # of committed transactions, which matter least
MAX_TOP_RANKED_FINDINGS = 40  # findings of a kind that rank with the worst


@dataclass(slots=True)
class PageData:
    """The objects of a page, by type, in order of arrival."""

    rows_by_type: dict[str, list[PageRow]] = field(default_factory=dict)
    finding_counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Number of findings, kept or not, by label, code and severity."""
    transaction_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of transactions, kept or not, by label and outcome."""
    has_omitted_harmful_start: bool = False
    """Whether a harmful start was dropped."""
    is_checked: bool = True
    """Whether the logs were checked."""
    n_omitted_by_type: Counter[str] = field(default_factory=Counter)
    """Number of objects dropped, by type."""
    answers: list[str] = field(default_factory=list)
    """The answer of `check`: whether a broker starts, and what is lost."""
    cluster_answers: Sequence[str] = ()
    """The answer of `replicas`, if there are several nodes."""
    next_steps: Sequence[NextStep] = ()
    """The next steps of `check`."""
    message_lines: dict[str, None] = field(default_factory=dict)
    """The lines written to standard error."""
    exit_code: ExitCode = ExitCode.CLEAN
    _ranks_by_type: dict[str, bytearray] = field(default_factory=dict)
    """How much each kept object of a limited type matters, 0 most."""
    _finding_counts_by_code: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of findings, by code and severity."""

    def rows_of_type(self, type_: str) -> list[PageRow]:
        """The objects of a type."""
        return self.rows_by_type.get(type_, [])

    @property
    def partition_rows(self) -> list[PageRow]:
        """The statistics of each partition, and of each other directory with logs."""
        return [row for row in self.rows_of_type("stat") if not _is_topic_row(row)]

    @property
    def topic_rows(self) -> list[PageRow]:
        """The statistics of each topic."""
        return [row for row in self.rows_of_type("stat") if _is_topic_row(row)]

    def add_object(self, json_object: JsonObject) -> None:
        """Add an object; beyond the limit of its type, instead of one that matters less."""
        page_row = PageRow(json_object)
        rows_of_same_type = self.rows_by_type.setdefault(page_row.type, [])
        if page_row.type == "findings_left_out":
            self.finding_counts[row_label(page_row), page_row.code, page_row.severity] += (
                page_row.count
            )
        max_rows = MAX_ROWS_BY_TYPE.get(page_row.type)
        if max_rows is None:
            rows_of_same_type.append(page_row)
            return
        rank = self._count_and_rank(page_row)
        ranks = self._ranks_by_type.setdefault(page_row.type, bytearray())
        if rank == COMMITTED_TRANSACTION_RANK and ranks.count(rank) >= MAX_COMMITTED_TRANSACTIONS:
            self._count_omitted(page_row)
            return
        if len(rows_of_same_type) >= max_rows:
            replaceable_indexes = (
                ranks.rfind(worse_rank)
                for worse_rank in range(COMMITTED_TRANSACTION_RANK, rank, -1)
            )
            replaced_index = next(
                (row_index for row_index in replaceable_indexes if row_index >= 0), None
            )
            if replaced_index is None:
                self._count_omitted(page_row)
                return
            self._count_omitted(rows_of_same_type.pop(replaced_index))
            del ranks[replaced_index]
        rows_of_same_type.append(page_row)
        ranks.append(rank)

    def _count_and_rank(self, row: PageRow) -> int:
        """Count an object, and return its rank: how much it matters, 0 most."""
        if row.type == "finding":
            code, severity = row.code, row.severity
            self.finding_counts[row_label(row), code, severity] += 1
            self._finding_counts_by_code[code, severity] += 1
            is_among_first = self._finding_counts_by_code[code, severity] <= MAX_TOP_RANKED_FINDINGS
            return 0 if is_among_first else 1 + SEVERITIES.index(severity)
        if row.type == "transaction":
            self.transaction_counts[row_label(row), row.outcome] += 1
            return COMMITTED_TRANSACTION_RANK if row.outcome == "committed" else 0
        if row.type == "broker_start":
            return 0 if is_harmful(row) else 1
        return 0 if row.type != "committed_offset" or row.lag else 1

    def _count_omitted(self, row: PageRow) -> None:
        self.n_omitted_by_type[row.type] += 1
        self.has_omitted_harmful_start |= row.type == "broker_start" and is_harmful(row)

    def add_row(self, row_type: RowType, value_by_member: Mapping[str, object]) -> None:
        """Add an object, given its members."""
        row = build_members(row_type, value_by_member)
        self.add_object({"type": row_type.name, **with_location(row, row_type.location_source)})

    def add_message_lines(self, message: str) -> None:
        """Keep a message's lines, without duplicates."""
        for line in message.splitlines():
            if line:
                self.message_lines[line] = None

    def iter_objects(self) -> Iterator[JsonObject]:
        """All objects; the page's own comes first."""
        report_type_name = REPORT_ROW.name
        yield from self.rows_of_type(report_type_name)
        for type_name, rows in self.rows_by_type.items():
            if type_name != report_type_name:
                yield from rows


def row_label(row: PageRow) -> str:
    """The name of an object's topic; without one, the path of its directory."""
    if topic := row.get("topic"):
        return str(topic)
    path = str(row.get("file") or "")
    parent, _, file_name = path.rpartition("/")
    return parent or "." if classify_name(file_name)[0] is not UNKNOWN_KIND else path


def is_harmful(row: PageRow) -> bool:
    """Whether a start loses something, or does not serve the partition."""
    return bool(not row.starts or row.becomes or row.lost_offsets or row.unreachable_offsets)


def _is_topic_row(row: PageRow) -> bool:
    return row.topic is not None and row.partition is None
