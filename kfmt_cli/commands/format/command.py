"""format: the reference of all formats, from the Layouts; also in docs/formats.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.format.options import FormatOptions
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.disk.kinds import KINDS, classify_name
from kfmt_cli.disk.kinds.kind import FileKind
from kfmt_cli.errors import UsageError, unknown_name_question
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH, RECORD_HEADER
from kfmt_cli.formats.control import CONTROL_RECORD_KEY, END_TXN_MARKER
from kfmt_cli.formats.kafka_messages import load_message_definitions, message_layout
from kfmt_cli.formats.kraft import KRAFT_LAYOUT_BY_TYPE
from kfmt_cli.formats.legacy import MESSAGE_V0, MESSAGE_V1, NOTES_V0
from kfmt_cli.render.style import Theme, format_count
from kfmt_cli.rows.documents import FORMAT_FIELD_ROW, FORMAT_ROW
from kfmt_cli.rows.types.format_entries import (
    describe_size,
    iter_format_entries,
    layout_field_row,
    layout_row,
)
from kfmt_cli.topics import DECODED_TOPICS, topic_message_types
from kfmt_cli.topics.coordinator_records import KEY_HEADER_LAYOUT, VALUE_HEADER_LAYOUT
from kfmt_cli.topics.enveloped_records import RECORD_ENVELOPE


@dataclass(frozen=True, slots=True)
class FormatChapter:
    """Formats that belong together."""

    title: str
    layouts: tuple[Layout, ...]
    file_or_topic_names: tuple[str, ...] = ()
    """Names of the files that contain them."""


def iter_format_chapters() -> Iterator[FormatChapter]:
    """All formats, in the order of the page."""
    yield FormatChapter("Record batch, magic 2", (RECORD_BATCH, RECORD, RECORD_HEADER), ("*.log",))
    control_layouts = (CONTROL_RECORD_KEY, END_TXN_MARKER, *KRAFT_LAYOUT_BY_TYPE.values())
    yield FormatChapter("Control records", control_layouts, ("*.checkpoint",))
    yield FormatChapter("Messages, magic 0 and 1", (MESSAGE_V0, MESSAGE_V1))
    for kind in KINDS:
        yield from _iter_kind_chapters(kind)
    yield FormatChapter(
        "Envelopes of internal topic records",
        (KEY_HEADER_LAYOUT, VALUE_HEADER_LAYOUT, RECORD_ENVELOPE),
    )
    for topic in DECODED_TOPICS:
        messages = topic_message_types(topic)
        if not messages:
            continue  # its records are JSON
        key_and_value_layouts = (
            layout
            for message in messages
            for layout in (message.key_layout, message.value_layout)
            if layout is not None
        )
        yield FormatChapter(f"The topic {topic}", tuple(key_and_value_layouts), (topic,))
    member_layouts = _message_layouts("bytes inside GroupMetadataValue members")
    yield FormatChapter("Inside classic consumer group members", member_layouts)
    header_layouts = _message_layouts("wire protocol headers")
    yield FormatChapter("Headers of requests and responses", header_layouts)
    yield FormatChapter("For teaching", (NOTES_V0,))


def _iter_kind_chapters(kind: FileKind) -> Iterator[FormatChapter]:
    """The formats of a kind of file; a chapter for each if its files have fixed names."""
    if kind.layouts and not kind.names:
        yield FormatChapter(kind.title, kind.layouts, tuple(kind.name_patterns))
    elif len(kind.names) == 1:
        (name,) = kind.names
        yield FormatChapter(f"The file {name}", kind.layouts, (name,))
    else:
        for layout in kind.layouts:
            title = f"The file {layout.name}: version, count, then lines of"
            yield FormatChapter(title, (layout,), (layout.name,))


def _message_layouts(location: str) -> tuple[Layout, ...]:
    """The layouts of the messages that Kafka defines for a location, see `where`."""
    named_definitions = load_message_definitions().items()
    return tuple(
        message_layout(name)
        for name, definition in named_definitions
        if definition["where"] == location
    )


def _normalize_name(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace("*", "")


def find_layouts(name: str) -> list[Layout]:
    """The formats with this name, or of the file or topic with this name; raises UsageError."""
    normalized_name, all_chapters = _normalize_name(name), list(iter_format_chapters())
    all_layouts = [layout for chapter in all_chapters for layout in chapter.layouts]
    if exact_matches := [
        layout for layout in all_layouts if _normalize_name(layout.name) == normalized_name
    ]:
        return exact_matches[:1]
    kind, _, _ = classify_name(name.rpartition("/")[2])
    normalized_file_names = {normalized_name, *map(_normalize_name, kind.name_patterns)}
    matching_chapters = [
        chapter
        for chapter in all_chapters
        for chapter_file_name in chapter.file_or_topic_names
        if _normalize_name(chapter_file_name) in normalized_file_names
    ]
    if file_layouts := [layout for chapter in matching_chapters for layout in chapter.layouts]:
        return file_layouts
    names = [layout.name for layout in all_layouts]
    question = unknown_name_question(normalized_name, names, "; run kfmt format to list them")
    raise UsageError(f"no format named {name!r}{question}")


@dataclass(slots=True)
class FormatCommand:
    """One call of `format`."""

    run: CommandRun
    options: FormatOptions

    def execute(self) -> None:
        """List all formats, or show the fields of some; raises UsageError."""
        sink, names = self.run.sink, self.options.names
        if self.options.json_schema:
            from kfmt_cli.commands.format.json_schema import format_json_schema

            self.run.output.write_text(format_json_schema())
            return
        if not names:
            _show_chapters(self.run)
        for layout in [layout for name in names for layout in find_layouts(name)]:
            if sink.is_for_people:
                sink.write_line(
                    "".join(_draw_layout(layout, sink.streams.theme, sink.streams.width))
                )
                continue
            for format_entry in iter_format_entries(layout):
                sink.write_document(FORMAT_FIELD_ROW, layout_field_row(layout, format_entry), ())


def _show_chapters(run: CommandRun) -> None:
    sink, all_chapters = run.sink, list(iter_format_chapters())
    name_width = max(len(layout.name) for chapter in all_chapters for layout in chapter.layouts)
    for chapter in all_chapters:
        if sink.is_for_people:
            sink.write_line(sink.streams.theme.paint("bold", chapter.title) + "\n")
        for layout in chapter.layouts:
            max_description_width = (sink.streams.width or 1 << 20) - name_width - 3
            description = textwrap.shorten(
                layout.doc, max(max_description_width, 20), placeholder=" …"
            )
            sink.write_document(
                FORMAT_ROW,
                layout_row(layout, chapter.title),
                [f" {layout.name:<{name_width}}  {description}\n"],
            )
    n_formats = sum(len(chapter.layouts) for chapter in all_chapters)
    sink.write_hint(
        f"{format_count(n_formats, 'format')}; kfmt format NAME shows the fields of one"
    )


def _draw_layout(layout: Layout, theme: Theme, width: int | None) -> Iterator[str]:
    """Draw a format as a table with a wrapped last column."""
    size_text = describe_size(layout)
    yield theme.paint("bold", layout.name) + (f"   {size_text}" if size_text else "") + "\n"
    yield from (f" {line}\n" for line in textwrap.wrap(layout.doc, (width or 100) - 2))
    yield theme.paint("dim", f" Source: {layout.source}") + "\n\n"
    format_entries = list(iter_format_entries(layout))
    cells_by_title = {
        "offset": ["" if entry.start is None else str(entry.start) for entry in format_entries],
        "field": ["  " * (len(entry.path) - 1) + entry.path[-1] for entry in format_entries],
        "type": [entry.bits or entry.type for entry in format_entries],
        "versions": [entry.versions for entry in format_entries],
    }
    aligned_columns = []
    for title, cells in cells_by_title.items():
        if any(cells) or title in ("field", "type"):
            column_width = max(map(len, (title, *cells)))
            align_cell = str.rjust if title == "offset" else str.ljust
            aligned_columns.append(
                [title.ljust(column_width), *(align_cell(cell, column_width) for cell in cells)]
            )
    heading, *rows = map("  ".join, zip(*aligned_columns, strict=True))
    indent_width = len(f" {heading}  ")
    meaning_width = max((width or 120) - indent_width, 24)
    yield theme.paint("bold", f" {heading}  meaning") + "\n"
    for row, format_entry in zip(rows, format_entries, strict=True):
        first_line, *more_lines = textwrap.wrap(format_entry.meaning, meaning_width) or [""]
        yield f" {row}  {first_line}".rstrip() + "\n"
        yield from (" " * indent_width + line + "\n" for line in more_lines)
    yield "\n"
