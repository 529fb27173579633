"""The keys of the browser: the source of its bindings, its help and docs/browse.md."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.browse.views import VIEWS


@dataclass(frozen=True, slots=True)
class KeyWords:
    """A key."""

    key: str
    """Textual's name for the key."""
    shown: str
    """The name shown to users."""
    action: str
    """The method of the application, without `action_`."""
    word: str
    """The label in the footer."""
    doc: str
    """The description in the help."""
    in_footer: bool = False


KEYS: tuple[KeyWords, ...] = (
    KeyWords("question_mark", "?", "help", "Help", "Show this help.", True),
    KeyWords(
        "escape",
        "Esc",
        "out",
        "Back",
        "Go back: fields, records, batches, tree. Cancels a search.",
    ),
    KeyWords(
        "g",
        "g",
        "go_to",
        "Go",
        "Go to an offset (700), time (2023-11-14T22:20) or byte (b7702).",
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
    KeyWords("right_square_bracket", "]", "hit(1)", "Next hit", "Next search hit."),
    KeyWords("left_square_bracket", "[", "hit(-1)", "Previous hit", "Previous search hit."),
    KeyWords("n", "n", "finding(1)", "Finding", "Jump to the next finding.", True),
    KeyWords("N", "N", "finding(-1)", "Previous finding", "Jump to the previous finding."),
    KeyWords("e", "e", "explain", "Explain", "Explain the finding, and what to do about it.", True),
    KeyWords("f", "f", "filter", "Filter", "Filter batches by codec, producer or kind.", True),
    KeyWords("p", "p", "payload", "Payload", "Toggle a record's content and its fields."),
    KeyWords("x", "x", "bytes", "Bytes", "Show or hide the byte pane.", True),
    KeyWords("t", "t", "tree", "Tree", "Show or hide the tree.", True),
    KeyWords("F", "F", "follow", "Follow", "Follow a growing file."),
    KeyWords("y", "y", "copy", "Copy", "Copy the record as JSON; elsewhere, the command."),
    KeyWords("c", "c", "check", "Check", "Check the selected tree node, whatever its size."),
    KeyWords("d", "d", "dark", "Dark", "Toggle dark and light."),
    KeyWords("tab", "Tab", "app.focus_next", "Next pane", "Next pane; Shift+Tab: previous pane."),
    KeyWords("0", "0", "view('0')", "Browse", "Return from a view to the log or directory."),
    *(
        KeyWords(view.key, view.key, f"view('{view.key}')", view.name, view.question)
        for view in VIEWS
    ),
    KeyWords("q", "q", "quit", "Quit", "Quit.", True),
)
MOVES = (
    ("↑ ↓ PgUp PgDn Home End", "Move; the mouse works too."),
    ("Enter", "Open a tree node, a batch's records or a record's fields."),
)
MARKS = (
    ("✗2", "two findings of severity error"),
    ("!1", "a warning"),
    ("✓", "checked, no problems"),
    ("…", "check in progress"),
)
