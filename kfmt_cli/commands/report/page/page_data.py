"""The content of a `report` page: objects of the JSON contract, by type.

For unbounded types, the page keeps the first few thousand and counts the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.disk.partition_path import with_place
from kfmt_cli.errors import ExitCode
from kfmt_cli.render.start_lines import Step
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


@dataclass(slots=True)
class PageData:
    """The objects of a page, by type, in order of arrival."""

    rows: dict[str, list[PageRow]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of objects dropped, by type."""
    answers: list[str] = field(default_factory=list)
    """The lines of `check` that say whether a broker starts, and what is lost."""
    cluster: Sequence[str] = ()
    """The answer of `replicas`, if there are several nodes."""
    steps: Sequence[Step] = ()
    """Its next steps."""
    said: dict[str, None] = field(default_factory=dict)
    """The lines written to standard error."""
    exit_code: ExitCode = ExitCode.CLEAN

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
        """Add an object unless its type has reached its limit."""
        made = PageRow(row)
        kept = self.rows.setdefault(made.type, [])
        most = MOST.get(made.type)
        if made.type == "transaction" and made.outcome == "committed":
            most = MOST_COMMITTED
        if most is not None and len(kept) >= most:
            self.left_out[made.type] += 1
        else:
            kept.append(made)

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


def _is_of_topic(row: PageRow) -> bool:
    return row.topic is not None and row.partition is None
