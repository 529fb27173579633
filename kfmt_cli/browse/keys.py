"""The keys of the browser: the source of its bindings, its help and docs/browse.md."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.browse.views import VIEWS


@dataclass(frozen=True, slots=True)
class KeyBinding:
    """A key and its action."""

    key: str
    """Textual's name for the key."""
    display_key: str
    """The name shown to users."""
    action: str
    """The method of the application, without `action_`."""
    label: str
    """The label in the footer."""
    doc: str
    """The description in the help."""
    is_in_footer: bool = False


KEY_BINDINGS: tuple[KeyBinding, ...] = (
    KeyBinding("question_mark", "?", "help", "Help", "Show this help.", True),
    KeyBinding(
        "escape",
        "Esc",
        "out",
        "Back",
        "Go back: fields, records, batches, tree. Cancels a search.",
    ),
    KeyBinding(
        "g",
        "g",
        "go_to",
        "Go",
        "Go to an offset (700), time (2023-11-14T22:20) or byte (b7702).",
        True,
    ),
    KeyBinding(
        "slash",
        "/",
        "search",
        "Search",
        "Search keys and values: text, regex or hex.",
        True,
    ),
    KeyBinding("right_square_bracket", "]", "hit(1)", "Next hit", "Next search hit."),
    KeyBinding("left_square_bracket", "[", "hit(-1)", "Previous hit", "Previous search hit."),
    KeyBinding("n", "n", "finding(1)", "Finding", "Jump to the next finding.", True),
    KeyBinding("N", "N", "finding(-1)", "Previous finding", "Jump to the previous finding."),
    KeyBinding(
        "e", "e", "explain", "Explain", "Explain the finding, and what to do about it.", True
    ),
    KeyBinding("f", "f", "filter", "Filter", "Filter batches by codec, producer or kind.", True),
    KeyBinding("p", "p", "payload", "Payload", "Toggle a record's content and its fields."),
    KeyBinding("x", "x", "bytes", "Bytes", "Show or hide the byte pane.", True),
    KeyBinding("t", "t", "tree", "Tree", "Show or hide the tree.", True),
    KeyBinding("F", "F", "follow", "Follow", "Follow a growing file."),
    KeyBinding(
        "y", "y", "copy", "Copy", "Copy the record as JSON, a step of the plan, or the command."
    ),
    KeyBinding("c", "c", "check", "Check", "Check the selected tree node, whatever its size."),
    KeyBinding("d", "d", "dark", "Dark", "Toggle dark and light."),
    KeyBinding("tab", "Tab", "app.focus_next", "Next pane", "Next pane; Shift+Tab: previous pane."),
    KeyBinding("0", "0", "view('0')", "Browse", "Return from a view to the log or directory."),
    *(
        KeyBinding(view.key, view.key, f"view('{view.key}')", view.label, view.question)
        for view in VIEWS
    ),
    KeyBinding("q", "q", "quit", "Quit", "Quit.", True),
)
MOVEMENT_KEYS = (
    ("↑ ↓ PgUp PgDn Home End", "Move; the mouse works too."),
    ("Enter", "Open a tree node, a batch's records or a record's fields."),
)
TREE_MARKS = (
    ("✗2", "two findings of severity error"),
    ("!1", "a warning"),
    ("✓", "checked, no problems"),
    ("…", "check in progress"),
)
