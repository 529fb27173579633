"""The keys of the browser: its bindings, its help and docs/browse.md are made from this table."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.browse.views import VIEWS


@dataclass(frozen=True, slots=True)
class KeyWords:
    """A key."""

    key: str
    """As Textual names it."""
    shown: str
    """As people name it."""
    action: str
    """The method of the application, without `action_`."""
    word: str
    """In the line at the bottom."""
    doc: str
    """In the help."""
    in_footer: bool = False


KEYS: tuple[KeyWords, ...] = (
    KeyWords("question_mark", "?", "help", "Help", "This help.", True),
    KeyWords(
        "escape",
        "Esc",
        "out",
        "Back",
        "Back: from fields to records, batches, tree; cancels a search.",
    ),
    KeyWords(
        "g",
        "g",
        "go_to",
        "Go",
        "Go to an offset (700), a time (2023-11-14T22:20), a byte (b7702).",
        True,
    ),
    KeyWords(
        "slash",
        "/",
        "search",
        "Search",
        "Search keys and values: text, regex or hex.",
        True,
    ),
    KeyWords(
        "right_square_bracket", "]", "hit(1)", "Next hit", "The next record that was searched for."
    ),
    KeyWords("left_square_bracket", "[", "hit(-1)", "Hit before", "The one before it."),
    KeyWords("n", "n", "finding(1)", "Finding", "The next finding, shown where it is.", True),
    KeyWords("N", "N", "finding(-1)", "Finding before", "The finding before it."),
    KeyWords(
        "e", "e", "explain", "Explain", "What the finding means, and what to do about it.", True
    ),
    KeyWords("f", "f", "filter", "Filter", "List only batches of a codec, producer, kind.", True),
    KeyWords(
        "p", "p", "payload", "Payload", "What a record says, or its fields: one or the other."
    ),
    KeyWords("x", "x", "bytes", "Bytes", "Show or hide the bytes.", True),
    KeyWords("t", "t", "tree", "Tree", "Show or hide the tree.", True),
    KeyWords("F", "F", "follow", "Follow", "Follow a file that grows."),
    KeyWords("y", "y", "copy", "Copy", "Copy the record as JSON, elsewhere the command line."),
    KeyWords("c", "c", "check", "Check", "Check what is selected in the tree, whatever its size."),
    KeyWords("d", "d", "dark", "Dark", "Dark or light."),
    KeyWords(
        "tab", "Tab", "app.focus_next", "Next pane", "The next pane; Shift+Tab the one before."
    ),
    KeyWords("0", "0", "view('0')", "Browse", "Back from a view to the log or the directory."),
    *(
        KeyWords(view.key, view.key, f"view('{view.key}')", view.name, view.question)
        for view in VIEWS
    ),
    KeyWords("q", "q", "quit", "Quit", "Quit.", True),
)
MOVES = (
    ("↑ ↓ PgUp PgDn Home End", "Move; the mouse wheel and clicks do, too."),
    ("Enter", "Open: a node of the tree, the records of a batch, the fields of a record."),
)
MARKS = (
    ("✗2", "two findings of severity error"),
    ("!1", "a warning"),
    ("✓", "checked, and nothing is wrong"),
    ("…", "is being checked"),
)
