"""The help page: keys, marks, and the question that each view answers."""

from __future__ import annotations

from rich.text import Text

from kfmt_cli.browse.keys import KEY_BINDINGS, MOVEMENT_KEYS, TREE_MARKS

DESCRIPTION_INDENT = 16  # columns before the description of a key


def help_lines(width: int) -> list[Text]:
    """The help page on a screen of this width."""
    lines = [Text(""), Text(" Keys", style="bold")]
    lines += [_description_line(display_key, doc, 12) for display_key, doc in MOVEMENT_KEYS]
    lines += [_description_line(binding.display_key, binding.doc, 12) for binding in KEY_BINDINGS]
    lines += [Text(""), Text(" Marks in the tree", style="bold")]
    lines += [_description_line(mark, doc, 12) for mark, doc in TREE_MARKS]
    lines += [
        Text(""),
        Text(" The line after $ is the equivalent command, ready for a script."),
        Text(" kfmt browse never writes anything."),
    ]
    wrapped_lines: list[Text] = []
    for line in lines:
        indent_columns = DESCRIPTION_INDENT if line.plain.startswith("   ") else 1
        continuation_width = max(width - indent_columns, 20)
        first_chunk, *other_chunks = (
            [line] if line.cell_len <= width else _wrap_line(line, width, continuation_width)
        )
        wrapped_lines += [
            first_chunk,
            *(Text(" " * indent_columns).append_text(chunk) for chunk in other_chunks),
        ]
    return wrapped_lines


def _wrap_line(line: Text, width: int, continuation_width: int) -> list[Text]:
    """The chunks of a wrapped line: the first at most `width` columns wide, the others at most
    `continuation_width`."""
    break_index = line.plain.rfind(" ", 0, width + 1)
    if break_index <= DESCRIPTION_INDENT:
        return [line]
    first_chunk, remaining_line = line.divide([break_index + 1])
    chunks = [first_chunk]
    while (
        remaining_line.cell_len > continuation_width
        and (break_index := remaining_line.plain.rfind(" ", 0, continuation_width + 1)) > 0
    ):
        chunk, remaining_line = remaining_line.divide([break_index + 1])
        chunks.append(chunk)
    return [*chunks, remaining_line]


def _description_line(term: str, description: str, term_width: int) -> Text:
    return Text.assemble((f"   {term:<{term_width}} ", "bold cyan"), description)
