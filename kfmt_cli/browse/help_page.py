"""The help page: keys, marks, and the question that each view answers."""

from __future__ import annotations

from rich.text import Text

from kfmt_cli.browse.keys import KEY_BINDINGS, MOVEMENT_KEYS, TREE_MARKS

DESCRIPTION_INDENT = 16  # columns before the description of a key


def help_lines(width: int) -> list[Text]:
    """The help page on a screen of this width."""
    lines = [Text(""), Text(" Keys", style="bold")]
    lines += [_entry_line(display_key, doc, 12) for display_key, doc in MOVEMENT_KEYS]
    lines += [_entry_line(key.display_key, key.doc, 12) for key in KEY_BINDINGS]
    lines += [Text(""), Text(" Marks in the tree", style="bold")]
    lines += [_entry_line(mark, doc, 12) for mark, doc in TREE_MARKS]
    lines += [
        Text(""),
        Text(" The line after $ is the equivalent command, ready for a script."),
        Text(" kfmt browse never writes anything."),
    ]
    wrapped: list[Text] = []
    for line in lines:
        margin = DESCRIPTION_INDENT if line.plain.startswith("   ") else 1
        remaining_width = max(width - margin, 20)
        first, *continuation = (
            [line] if line.cell_len <= width else _wrap_line(line, width, remaining_width)
        )
        wrapped += [first, *(Text(" " * margin).append_text(chunk) for chunk in continuation)]
    return wrapped


def _wrap_line(line: Text, width: int, remaining_width: int) -> list[Text]:
    """The chunks of a wrapped line: the first at most `width` columns wide, the others at most
    `remaining_width`."""
    break_index = line.plain.rfind(" ", 0, width + 1)
    if break_index <= DESCRIPTION_INDENT:
        return [line]
    first, remaining = line.divide([break_index + 1])
    chunks = [first]
    while (
        remaining.cell_len > remaining_width
        and (break_index := remaining.plain.rfind(" ", 0, remaining_width + 1)) > 0
    ):
        chunk, remaining = remaining.divide([break_index + 1])
        chunks.append(chunk)
    return [*chunks, remaining]


def _entry_line(name: str, doc: str, width: int) -> Text:
    return Text.assemble((f"   {name:<{width}} ", "bold cyan"), doc)
