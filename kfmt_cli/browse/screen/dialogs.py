"""What is asked for in a window above the others, and pages of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, RadioButton, RadioSet, Static

from kfmt_cli.browse.hunting import HEX, KEY, REGEX, TEXT, VALUE, SoughtText
from kfmt_cli.browse.screen.line_list import LineList
from kfmt_cli.errors import KfmtError

CSS = """
GoToDialog, SearchDialog, FilterDialog, PageWindow { align: center middle; }
.window { width: 76; max-width: 98%; height: auto; background: $surface; border: round $primary;
    padding: 0 1; }
.window Static { height: auto; }
.window Input { border: tall $primary; }
.window RadioSet { layout: horizontal; border: none; height: 1; width: 100%; padding: 0; }
.window RadioButton { width: auto; margin-right: 2; }
.window .wrong { color: $error; height: auto; }
PageWindow .page { width: 100; max-width: 96%; height: 90%; background: $surface;
    border: round $primary; }
"""
_CLOSE: list[BindingType] = [Binding("escape", "dismiss(None)", "Close", show=False)]


class LineDialog(ModalScreen[str | None]):
    """Asks for a line of text."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSE

    def __init__(
        self, title: str, doc: Sequence[str], text: str, wrong: Callable[[str], str]
    ) -> None:
        """wrong: why a line cannot be taken, empty for one that can."""
        super().__init__()
        self._title = title
        self._doc = doc
        self._text = text
        self._wrong = wrong

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(Text(self._title, style="bold"))
            yield Input(self._text, id="line")
            yield Static("", classes="wrong", markup=False)
            for line in (*self._doc, "Enter takes it, Esc leaves it."):
                yield Static(Text(line, style="dim"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take what was typed, or say what is wrong with it."""
        event.stop()
        wrong = self._wrong(event.value)
        if wrong:
            self.query_one(".wrong", Static).update(wrong)
        else:
            self.dismiss(event.value)


class SearchDialog(ModalScreen[SoughtText | None]):
    """Asks what is searched for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_CLOSE,
        Binding("ctrl+t", "turn('kind')", show=False),
        Binding("ctrl+o", "turn('field')", show=False),
    ]
    KINDS = (TEXT, REGEX, HEX)
    FIELDS = (VALUE, KEY)

    def __init__(self, before: SoughtText | None) -> None:
        super().__init__()
        self._before = before or SoughtText("")

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(Text("Search from the selected batch on", style="bold"))
            yield Input(self._before.words, id="line")
            with Horizontal(id="choices"), RadioSet(id="kind"):
                for kind in self.KINDS:
                    yield RadioButton(kind, value=kind == self._before.kind)
            with RadioSet(id="field"):
                for field in self.FIELDS:
                    yield RadioButton(f"in {field}s", value=field == self._before.field)
            yield Static("", classes="wrong", markup=False)
            yield Static(Text("Enter searches, Esc leaves.", style="dim"))
            words = "Ctrl+T: text, regex or hex. Ctrl+O: keys or values."
            yield Static(Text(words, style="dim"))

    def action_turn(self, name: str) -> None:
        """The next choice."""
        choices = self.query_one(f"#{name}", RadioSet)
        buttons = list(choices.query(RadioButton))
        buttons[(choices.pressed_index + 1) % len(buttons)].value = True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search, or say what is wrong."""
        event.stop()
        kind = self.KINDS[self.query_one("#kind", RadioSet).pressed_index]
        field = self.FIELDS[self.query_one("#field", RadioSet).pressed_index]
        sought = SoughtText(event.value, kind, field)
        try:
            sought.pattern  # noqa: B018 (raises)
        except KfmtError as error:
            self.query_one(".wrong", Static).update(str(error))
            return
        self.dismiss(sought if event.value else None)


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
        lines = self._lines
        page = self.query_one("#page", LineList)
        page.show_lines(lines, f" {self._title}   Esc closes")
        page.focus()
