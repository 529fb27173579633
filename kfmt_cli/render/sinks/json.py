"""JSON Lines as documented in docs/json.md: one object per line, `type` first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfmt_cli.core.json_text import json_text
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.render.sinks.sink import FileHeading, RowWriter

if TYPE_CHECKING:
    from kfmt_cli.rows.column import RowType
    from kfmt_cli.rows.columnar_rows import JsonObject


class JsonSink(ObjectSink):
    """JSON Lines on standard output, including findings."""

    writes_small_logs = True

    def format_object(self, row: JsonObject) -> str:
        return json_text(row) + "\n"

    def begin_rows(
        self, file_heading: FileHeading, outer_type: RowType, inner_type: RowType | None = None
    ) -> RowWriter:
        from kfmt_cli.render.sinks.json_rows import JsonRowWriter

        del outer_type
        return JsonRowWriter(
            file_heading.files or (file_heading.file,), self.display_options.bytes_mode, inner_type
        )
