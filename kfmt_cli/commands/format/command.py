"""format: the reference of all formats, from the Layouts; also in docs/formats.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.commands.format.lines import drawn
from kfmt_cli.commands.run import Run
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.disk.kinds import KINDS, kind_of
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.errors import UsageError
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH, RECORD_HEADER
from kfmt_cli.formats.control import CONTROL_RECORD_KEY, END_TXN_MARKER
from kfmt_cli.formats.kafka_messages import definitions, message
from kfmt_cli.formats.kraft import KRAFT_MESSAGES
from kfmt_cli.formats.legacy import MESSAGE_V0, MESSAGE_V1, NOTES_V0
from kfmt_cli.render.style import count
from kfmt_cli.rows.documents import FORMAT, FORMAT_FIELD
from kfmt_cli.rows.types.format_entries import entries_of, field_row, format_row
from kfmt_cli.topics import TOPICS, messages_of
from kfmt_cli.topics.enveloped import ENVELOPE
from kfmt_cli.topics.keyed import KEY_FRONT, VALUE_FRONT


@dataclass(frozen=True, slots=True)
class Chapter:
    """Formats that belong together."""

    title: str
    layouts: tuple[Layout, ...]
    files: tuple[str, ...] = ()
    """Names of the files that contain them."""


def chapters() -> Iterator[Chapter]:
    """All formats, in the order of the page."""
    yield Chapter("Record batch, magic 2", (RECORD_BATCH, RECORD, RECORD_HEADER), ("*.log",))
    control = (CONTROL_RECORD_KEY, END_TXN_MARKER, *KRAFT_MESSAGES.values())
    yield Chapter("Control records", control, ("*.checkpoint",))
    yield Chapter("Messages, magic 0 and 1", (MESSAGE_V0, MESSAGE_V1))
    for kind in KINDS:
        yield from _of_kind(kind)
    yield Chapter("Envelopes of internal topic records", (KEY_FRONT, VALUE_FRONT, ENVELOPE))
    for topic in TOPICS:
        messages = messages_of(topic)
        if not messages:
            continue  # its records are JSON
        both = (
            layout
            for message in messages
            for layout in (message.key, message.value)
            if layout is not None
        )
        yield Chapter(f"The topic {topic}", tuple(both), (topic,))
    inside = _messages_in("bytes inside GroupMetadataValue members")
    yield Chapter("Inside classic consumer group members", inside)
    headers = _messages_in("wire protocol headers")
    yield Chapter("Headers of requests and responses", headers)
    yield Chapter("For teaching", (NOTES_V0,))


def _of_kind(kind: Kind) -> Iterator[Chapter]:
    """The formats of a kind of file; a chapter for each if its files have fixed names."""
    if kind.layouts and not kind.names:
        yield Chapter(kind.title, kind.layouts, tuple(kind.named))
    elif len(kind.names) == 1:
        (name,) = kind.names
        yield Chapter(f"The file {name}", kind.layouts, (name,))
    else:
        for layout in kind.layouts:
            title = f"The file {layout.name}: version, count, then lines of"
            yield Chapter(title, (layout,), (layout.name,))


def _messages_in(place: str) -> tuple[Layout, ...]:
    """The messages that Kafka defines for a place."""
    every = definitions().items()
    return tuple(message(name) for name, definition in every if definition["where"] == place)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace("*", "")


def found(name: str) -> list[Layout]:
    """The formats with this name, or of the file or topic with it; raises UsageError."""
    wanted, every = _plain(name), list(chapters())
    known = [layout for chapter in every for layout in chapter.layouts]
    if own := [layout for layout in known if _plain(layout.name) == wanted]:
        return own[:1]
    kind, _, _ = kind_of(name.rpartition("/")[2])
    files = {wanted, *map(_plain, kind.named)}
    of_files = [chapter for chapter in every for file in chapter.files if _plain(file) in files]
    if of_file := [layout for chapter in of_files for layout in chapter.layouts]:
        return of_file
    near = [layout.name for layout in known if wanted in _plain(layout.name)]
    words = f"did you mean {', '.join(near)}?" if near else "run kfmt format to list them"
    raise UsageError(f"no format named {name!r}; {words}")


def show_formats(run: Run, names: tuple[str, ...]) -> None:
    """List all formats, or show the fields of some; raises UsageError."""
    sink = run.sink
    if not names:
        _show_list(run)
    for layout in [layout for name in names for layout in found(name)]:
        if sink.for_people:
            sink.put("".join(drawn(layout, sink.out.theme, sink.out.width)))
            continue
        for entry in entries_of(layout):
            sink.document(FORMAT_FIELD, field_row(layout, entry), ())


def _show_list(run: Run) -> None:
    sink, every = run.sink, list(chapters())
    width = max(len(layout.name) for chapter in every for layout in chapter.layouts)
    for chapter in every:
        if sink.for_people:
            sink.put(sink.out.theme.paint("bold", chapter.title) + "\n")
        for layout in chapter.layouts:
            room = (sink.out.width or 1 << 20) - width - 3
            words = textwrap.shorten(layout.doc, max(room, 20), placeholder=" …")
            sink.document(
                FORMAT, format_row(layout, chapter.title), [f" {layout.name:<{width}}  {words}\n"]
            )
    n_formats = sum(len(chapter.layouts) for chapter in every)
    sink.remark(f"{count(n_formats, 'format')}; kfmt format NAME shows the fields of one")
