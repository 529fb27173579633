"""Dialog windows, and pages of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kfmt_cli.browse.log_search import BOTH, HEX, KEY, REGEX, TEXT, VALUE, SoughtText
from kfmt_cli.browse.screen.line_list import LineList
from kfmt_cli.errors import KfmtError, UsageError

CSS = """
LineDialog, SearchDialog, PageWindow { align: center middle; }
.window { width: 76; max-width: 98%; height: auto; background: $surface; border: round $primary;
    padding: 0 1; }
.window Static { height: auto; }
.window Input { border: tall $primary; }
.window .wrong { color: $error; height: auto; }
PageWindow .page { width: 100; max-width: 96%; height: 90%; background: $surface;
    border: round $primary; }
"""
T = TypeVar("T")


class _InputDialog(ModalScreen[T | None]):
    """Asks for something that is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", show=False)
    ]

    def taken(self, words: str) -> T | None:
        """What the line says; raises KfmtError."""
        raise NotImplementedError

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Accept the input, or show why it is invalid."""
        event.stop()
        if not self.is_current:  # a second Enter, before the first has closed it
            return
        try:
            self.dismiss(self.taken(event.value))
        except KfmtError as error:
            self.query_one(".wrong", Static).update(str(error))


class LineDialog(_InputDialog[T]):
    """Asks for a line of text."""

    def taken(self, words: str) -> T:
        return self._read(words)

    def __init__(self, title: str, doc: Sequence[str], text: str, read: Callable[[str], T]) -> None:
        """read: returns what a line says; raises KfmtError."""
        super().__init__()
        self._title = title
        self._doc = doc
        self._text = text
        self._read = read

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(Text(self._title, style="bold"))
            yield Input(self._text, id="line")
            yield Static("", classes="wrong", markup=False)
            for line in (*self._doc, "Enter confirms, Esc cancels."):
                yield Static(Text(line, style="dim"))


class ChoiceLine(Static):
    """A row of choices; the marks show which is selected, even without colours."""

    def __init__(
        self,
        label: str,
        choices: dict[str, str],
        chosen: str,
        *,
        id: str,  # noqa: A002 (Textual's)
    ) -> None:
        """choices: labels by value."""
        super().__init__(id=id)
        self._label = label
        self._choices = choices
        self.chosen = chosen

    def on_mount(self) -> None:
        """Show the choices."""
        self.choose(self.chosen)

    def choose(self, name: str) -> None:
        """Select a choice."""
        self.chosen = name
        text = Text(f"{self._label:<4}", style="dim")
        for i, (choice, words) in enumerate(self._choices.items()):
            is_chosen = choice == name
            style = Style(bold=is_chosen, meta={"@click": f"take({i})"})
            text.append(f"({'•' if is_chosen else ' '}) {words}", style=style)
            text.append("   ")
        self.update(text)

    def action_take(self, number: int) -> None:
        """Select a choice by its index."""
        self.choose(list(self._choices)[number])

    def turn(self) -> None:
        """Select the next choice."""
        names = list(self._choices)
        self.choose(names[(names.index(self.chosen) + 1) % len(names)])


class SearchDialog(_InputDialog[SoughtText]):
    """Asks for a search term."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "turn('kind')", show=False),
        Binding("ctrl+o", "turn('field')", show=False),
    ]
    KINDS: ClassVar[dict[str, str]] = {TEXT: "text", REGEX: "regex", HEX: "hex"}
    FIELDS: ClassVar[dict[str, str]] = {BOTH: "keys and values", KEY: "keys", VALUE: "values"}

    def __init__(self, before: SoughtText | None, trouble: str = "") -> None:
        """trouble: why a search is impossible."""
        super().__init__()
        self._before = before or SoughtText("")
        self._trouble = trouble

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            words = "Search this partition from the selected batch"
            yield Static(Text(words, style="bold"))
            yield Input(self._before.words, id="line")
            yield ChoiceLine("for", self.KINDS, self._before.kind, id="kind")
            yield ChoiceLine("in", self.FIELDS, self._before.field, id="field")
            yield Static("", classes="wrong", markup=False)
            yield Static(Text("Enter searches, Esc cancels.", style="dim"))
            words = "Ctrl+T: text, regex or hex. Ctrl+O: keys, values or both. Or click."
            yield Static(Text(words, style="dim"))

    def action_turn(self, name: str) -> None:
        """Select the next choice."""
        self.query_one(f"#{name}", ChoiceLine).turn()

    def taken(self, words: str) -> SoughtText | None:
        """What to search; raises UsageError."""
        kind, field = (self.query_one(f"#{name}", ChoiceLine).chosen for name in ("kind", "field"))
        sought = SoughtText(words, kind, field)
        sought.pattern  # noqa: B018 (raises)
        if self._trouble:
            raise UsageError(self._trouble)
        return sought if words else None


class PageWindow(ModalScreen[None]):
    """A page of text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss(None)", "Close", show=False)
    ]

    def __init__(self, title: str, lines: Sequence[Text | str]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical(classes="page"):
            yield LineList(has_cursor=False, id="page")

    def on_mount(self) -> None:
        """Show the lines."""
        page = self.query_one("#page", LineList)
        page.show_lines(self._lines, f" {self._title}   Esc closes")
        page.focus()
