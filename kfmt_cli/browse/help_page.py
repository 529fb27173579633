"""The page of help: keys, marks, and what each view answers."""

from __future__ import annotations

from rich.text import Text

from kfmt_cli.browse.keys import KEYS, MARKS, MOVES


def help_lines() -> list[Text]:
    """The page."""
    lines = [Text(""), Text(" Keys", style="bold")]
    lines += [_row(shown, doc, 12) for shown, doc in MOVES]
    lines += [_row(key.shown, key.doc, 12) for key in KEYS]
    lines += [Text(""), Text(" Marks in the tree", style="bold")]
    lines += [_row(mark, doc, 12) for mark, doc in MARKS]
    lines += [
        Text(""),
        Text(" The line after $ is the command that shows the same; it can be put into a script."),
        Text(" Nothing is ever written."),
    ]
    return lines


def _row(name: str, doc: str, width: int) -> Text:
    return Text.assemble((f"   {name:<{width}} ", "bold cyan"), doc)
