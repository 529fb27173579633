"""The content of a `report` page: objects of the JSON contract, by type.

For unbounded types, the page keeps the worst few thousand and counts the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.kinds import UNKNOWN, kind_of
from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.finding import SEVERITIES
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.documents import members
from kfmt_cli.rows.section import Object
from kfmt_cli.rows.types.shapes import PAGE

PageRow = Fields

# How many objects of a type are kept; other types are unlimited.
MOST: Mapping[str, int] = {
    "finding": 4_000,
    "transaction": 3_000,
    "retention": 20_000,
    "roll": 5_000,
    "broker_start": 5_000,
    "committed_offset": 10_000,
    "group": 5_000,
}
MOST_COMMITTED = 1_000  # committed transactions
COMMITTED = 4  # how much these matter: less than anything else
OF_EACH_KIND = 40  # findings that are as good as the worst


@dataclass(slots=True)
class PageData:
    """The objects of a page, by type, in order of arrival."""

    rows: dict[str, list[PageRow]] = field(default_factory=dict)
    n_findings: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Number of findings, by label, code and severity; also of those that are not kept."""
    n_transactions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The same for transactions, by label and outcome."""
    left_out_harm: bool = False
    """Whether a start that harms was dropped."""
    is_checked: bool = True
    """Whether the logs were checked."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of objects dropped, by type."""
    answers: list[str] = field(default_factory=list)
    """The lines of `check` that say whether a broker starts, and what is lost."""
    cluster: Sequence[str] = ()
    """The answer of `replicas`, if there are several nodes."""
    steps: Sequence[NextStep] = ()
    """Its next steps."""
    said: dict[str, None] = field(default_factory=dict)
    """The lines written to standard error."""
    exit_code: ExitCode = ExitCode.CLEAN
    _ranks: dict[str, bytearray] = field(default_factory=dict)
    """How much each kept object of a limited type matters, 0 most."""
    _kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of findings, by code and severity."""

    def of(self, type_: str) -> list[PageRow]:
        """The objects of a type."""
        return self.rows.get(type_, [])

    @property
    def partitions(self) -> list[PageRow]:
        """The statistics of each partition; for files elsewhere, of their directory."""
        return [row for row in self.of("stat") if not _is_of_topic(row)]

    @property
    def topics(self) -> list[PageRow]:
        """The statistics of each topic."""
        return [row for row in self.of("stat") if _is_of_topic(row)]

    def keep(self, row: Object) -> None:
        """Add an object; beyond the limit of its type, instead of one that matters less."""
        made = PageRow(row)
        kept = self.rows.setdefault(made.type, [])
        if made.type == "findings_left_out":
            self.n_findings[label_of(made), made.code, made.severity] += made.count
        most = MOST.get(made.type)
        if most is None:
            kept.append(made)
            return
        rank = self._rank(made)
        ranks = self._ranks.setdefault(made.type, bytearray())
        if rank == COMMITTED and ranks.count(rank) >= MOST_COMMITTED:
            self._leave_out(made)
            return
        if len(kept) >= most:
            lesser = (ranks.rfind(other) for other in range(COMMITTED, rank, -1))
            at = next((at for at in lesser if at >= 0), None)
            if at is None:
                self._leave_out(made)
                return
            self._leave_out(kept.pop(at))
            del ranks[at]
        kept.append(made)
        ranks.append(rank)

    def _rank(self, row: PageRow) -> int:
        """Count an object, and say how much it matters, 0 most."""
        if row.type == "finding":
            code, severity = row.code, row.severity
            self.n_findings[label_of(row), code, severity] += 1
            self._kinds[code, severity] += 1
            is_first = self._kinds[code, severity] <= OF_EACH_KIND
            return 0 if is_first else 1 + SEVERITIES.index(severity)
        if row.type == "transaction":
            self.n_transactions[label_of(row), row.outcome] += 1
            return COMMITTED if row.outcome == "committed" else 0
        if row.type == "broker_start":
            return 0 if harms(row) else 1
        return 0 if row.type != "committed_offset" or row.lag else 1

    def _leave_out(self, row: PageRow) -> None:
        self.left_out[row.type] += 1
        self.left_out_harm |= row.type == "broker_start" and harms(row)

    def put(self, type_: RowType, values: Mapping[str, object]) -> None:
        """Add an object, given its members."""
        row = members(type_, values)
        self.keep({"type": type_.name, **with_place(row, type_.placed)})

    def tell(self, words: str) -> None:
        """Keep a message's lines, without duplicates."""
        for line in words.splitlines():
            if line:
                self.said[line] = None

    def objects(self) -> Iterator[Object]:
        """All objects; the page's own comes first."""
        first = PAGE.name
        yield from self.of(first)
        for name, rows in self.rows.items():
            if name != first:
                yield from rows


def label_of(row: PageRow) -> str:
    """The name of an object's topic; without one, the path of its directory."""
    if topic := row.get("topic"):
        return str(topic)
    file = str(row.get("file") or "")
    above, _, name = file.rpartition("/")
    return above or "." if kind_of(name)[0] is not UNKNOWN else file


def harms(row: PageRow) -> bool:
    """Whether a start loses something, or does not serve the partition."""
    return bool(not row.starts or row.becomes or row.lost_offsets or row.unreachable_offsets)


def _is_of_topic(row: PageRow) -> bool:
    return row.topic is not None and row.partition is None
