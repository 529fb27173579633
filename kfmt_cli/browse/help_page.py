"""The help page: keys, marks, and the question that each view answers."""

from __future__ import annotations

from rich.text import Text

from kfmt_cli.browse.keys import KEYS, MARKS, MOVES

INDENT = 16  # columns before the description of a key


def help_lines(width: int) -> list[Text]:
    """The help page on a screen of this width."""
    lines = [Text(""), Text(" Keys", style="bold")]
    lines += [_row(shown, doc, 12) for shown, doc in MOVES]
    lines += [_row(key.shown, key.doc, 12) for key in KEYS]
    lines += [Text(""), Text(" Marks in the tree", style="bold")]
    lines += [_row(mark, doc, 12) for mark, doc in MARKS]
    lines += [
        Text(""),
        Text(" The line after $ is the equivalent command, ready for a script."),
        Text(" kfmt browse never writes anything."),
    ]
    wrapped: list[Text] = []
    for line in lines:
        margin = INDENT if line.plain.startswith("   ") else 1
        room = max(width - margin, 20)
        first, *more = [line] if line.cell_len <= width else _wrapped(line, width, room)
        wrapped += [first, *(Text(" " * margin).append_text(piece) for piece in more)]
    return wrapped


def _wrapped(line: Text, width: int, room: int) -> list[Text]:
    """The pieces of a line: the first as wide as the screen, the others with room for a margin."""
    at = line.plain.rfind(" ", 0, width + 1)
    if at <= INDENT:
        return [line]
    first, rest = line.divide([at + 1])
    pieces = [first]
    while rest.cell_len > room and (at := rest.plain.rfind(" ", 0, room + 1)) > 0:
        piece, rest = rest.divide([at + 1])
        pieces.append(piece)
    return [*pieces, rest]


def _row(name: str, doc: str, width: int) -> Text:
    return Text.assemble((f"   {name:<{width}} ", "bold cyan"), doc)
