"""Rows as JSON Lines, by compiled templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from kfmt_cli.core.native.table import Table
from kfmt_cli.render.sinks.sink import RowWriter
from kfmt_cli.render.template import Literals, Template
from kfmt_cli.render.templates import json_template
from kfmt_cli.render.write import write_nested, write_rows
from kfmt_cli.rows.column import ColumnKind, RowType
from kfmt_cli.rows.section import Rows

Constants = tuple[tuple[str, int], ...]


class JsonRows(RowWriter):
    """The rows of one file, or of several that the rows refer to by number."""

    def __init__(self, files: Sequence[str], mode: str, inner: RowType | None) -> None:
        self._files = files
        self._mode = mode
        self._often = () if inner is None else often_constant(inner)
        self._templates = cache(self._make_templates)

    def _make_templates(
        self,
        outer: RowType,
        inner: RowType | None,
        known: Constants,
        names: tuple[tuple[str, ...], ...],
    ) -> tuple[Template, Template | None]:
        literals = Literals()
        places = [{name: i for i, name in enumerate(columns)} for columns in names]
        above = json_template(outer, self._files, places[0], self._mode, literals)
        if inner is None:
            return above, None
        below = json_template(inner, self._files, places[1], self._mode, literals, dict(known))
        return above, below

    def text(self, rows: Rows, first: int, last: int) -> Iterator[memoryview]:
        outer, inner = rows.outer, rows.inner
        if inner is None:
            template, _ = self._templates(outer.type, None, (), (tuple(outer.table.names),))
            return write_rows(template, outer, first, last)
        names = tuple(outer.table.names), tuple(inner.table.names)
        known = constants(inner.table, self._often)
        above, below = self._templates(outer.type, inner.type, known, names)
        assert below is not None
        return write_nested((above, outer), (below, inner), rows.ends, first, last)


def often_constant(rows: RowType) -> tuple[str, ...]:
    """Columns whose value is usually constant within a block.

    A template is then built for that value.
    """
    found: dict[str, None] = {}
    for leaf in rows.leaves:
        if leaf.given:
            found[leaf.given] = None
        if leaf.only:
            found[leaf.only[0]] = None
        if leaf.kind in (ColumnKind.CHOICE, ColumnKind.HEADERS) or leaf.none is not None:
            found[leaf.at] = None
    return tuple(found)


def constants(rows: Table, names: tuple[str, ...]) -> Constants:
    """Those of the given columns that contain a single value, each with that value.

    Only -1 to 2 count: templates for other values would be needed for each block.
    """
    if not len(rows):
        return ()
    found = []
    for name in names:
        values = rows[name]
        value = int(values[0])
        if -1 <= value <= 2 and values[-1] == value and (values == value).all():
            found.append((name, value))
    return tuple(found)
