"""JSON Lines, by the contract: one object per line, `type` first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfmt_cli.core.json_text import json_text
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.sinks.sink import Head, RowWriter

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType
    from kfmt_cli.rows.section import Object


class Json(ObjectSink):
    """JSON Lines on standard output, including findings."""

    writes_packs = True

    def line(self, row: Object) -> str:
        return json_text(row) + "\n"

    def rows(self, head: Head, outer: RowType, inner: RowType | None = None) -> RowWriter:
        from kfmt_cli.render.sinks.json_rows import JsonRows

        del outer
        return JsonRows(head.files or (head.file,), self.look.mode, inner)
