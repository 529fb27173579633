"""Dialog windows, and pages of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kfmt_cli.browse.log_search import (
    HEX_SEARCH,
    KEY_AND_VALUE,
    KEY_ONLY,
    REGEX_SEARCH,
    TEXT_SEARCH,
    VALUE_ONLY,
    SearchTerm,
)
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
Answer = TypeVar("Answer")


class _InputDialog(ModalScreen[Answer | None]):
    """A dialog with a text input."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", show=False)
    ]

    def parse_input(self, text: str) -> Answer | None:
        """Parse the input; raises KfmtError."""
        raise NotImplementedError

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Accept the input, or show why it is invalid."""
        event.stop()
        if not self.is_current:  # a second Enter, before the first has closed the dialog
            return
        try:
            self.dismiss(self.parse_input(event.value))
        except KfmtError as error:
            self.query_one(".wrong", Static).update(str(error))


class LineDialog(_InputDialog[Answer]):
    """A dialog that asks for a line of text."""

    def parse_input(self, text: str) -> Answer:
        return self._parse_text(text)

    def __init__(
        self,
        title: str,
        hints: Sequence[str],
        initial_text: str,
        parse_text: Callable[[str], Answer],
    ) -> None:
        """parse_text: parses the input; raises KfmtError."""
        super().__init__()
        self._title = title
        self._hints = hints
        self._initial_text = initial_text
        self._parse_text = parse_text

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(Text(self._title, style="bold"))
            yield Input(self._initial_text, id="line")
            yield Static("", classes="wrong", markup=False)
            for line in (*self._hints, "Enter confirms, Esc cancels."):
                yield Static(Text(line, style="dim"))


class ChoiceLine(Static):
    """A row of choices; the marks show which is selected, even without colours."""

    selected_choice: reactive[str] = reactive("")

    def __init__(
        self,
        label: str,
        label_by_choice: dict[str, str],
        selected_choice: str,
        *,
        id: str,  # noqa: A002 (Textual's)
    ) -> None:
        super().__init__(id=id)
        self._label = label
        self._label_by_choice = label_by_choice
        self.set_reactive(ChoiceLine.selected_choice, selected_choice)

    def render(self) -> Text:
        choices_text = Text(f"{self._label:<4}", style="dim")
        for choice_index, (choice, label) in enumerate(self._label_by_choice.items()):
            is_selected = choice == self.selected_choice
            style = Style(bold=is_selected, meta={"@click": f"take({choice_index})"})
            choices_text.append(f"({'•' if is_selected else ' '}) {label}", style=style)
            choices_text.append("   ")
        return choices_text

    def action_take(self, choice_index: int) -> None:
        """Select a choice by its index."""
        self.selected_choice = list(self._label_by_choice)[choice_index]

    def select_next_choice(self) -> None:
        """Select the next choice."""
        choices = list(self._label_by_choice)
        choice_index = choices.index(self.selected_choice) + 1
        self.selected_choice = choices[choice_index % len(choices)]


class SearchDialog(_InputDialog[SearchTerm]):
    """A dialog that asks for a search term."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "turn('kind')", show=False),
        Binding("ctrl+o", "turn('field')", show=False),
    ]
    LABEL_BY_SEARCH_KIND: ClassVar[dict[str, str]] = {
        TEXT_SEARCH: "text",
        REGEX_SEARCH: "regex",
        HEX_SEARCH: "hex",
    }
    LABEL_BY_SEARCHED_FIELD: ClassVar[dict[str, str]] = {
        KEY_AND_VALUE: "keys and values",
        KEY_ONLY: "keys",
        VALUE_ONLY: "values",
    }

    def __init__(self, previous_term: SearchTerm | None, search_error: str = "") -> None:
        """search_error: why a search is impossible; empty if it is possible."""
        super().__init__()
        self._previous_term = previous_term or SearchTerm("")
        self._search_error = search_error

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            line_text = "Search this partition from the selected batch"
            yield Static(Text(line_text, style="bold"))
            yield Input(self._previous_term.typed_text, id="line")
            yield ChoiceLine(
                "for", self.LABEL_BY_SEARCH_KIND, self._previous_term.search_kind, id="kind"
            )
            yield ChoiceLine(
                "in", self.LABEL_BY_SEARCHED_FIELD, self._previous_term.searched_field, id="field"
            )
            yield Static("", classes="wrong", markup=False)
            yield Static(Text("Enter searches, Esc cancels.", style="dim"))
            line_text = "Ctrl+T: text, regex or hex. Ctrl+O: keys, values or both. Or click."
            yield Static(Text(line_text, style="dim"))

    def action_turn(self, choice_id: str) -> None:
        """Select the next choice."""
        self.query_one(f"#{choice_id}", ChoiceLine).select_next_choice()

    def parse_input(self, text: str) -> SearchTerm | None:
        """The search term, None for an empty input; raises UsageError."""
        search_kind, searched_field = (
            self.query_one(f"#{choice_id}", ChoiceLine).selected_choice
            for choice_id in ("kind", "field")
        )
        search_term = SearchTerm(text, search_kind, searched_field)
        search_term.pattern  # noqa: B018 (raises)
        if self._search_error:
            raise UsageError(self._search_error)
        return search_term if text else None


class PageWindow(ModalScreen[None]):
    """A page of text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss(None)", "Close", show=False)
    ]

    def __init__(self, title: str, lines: Sequence[Text | str]) -> None:
        super().__init__()
        self._title = title
        self._page_lines = lines

    def compose(self) -> ComposeResult:
        with Vertical(classes="page"):
            yield LineList(has_cursor=False, id="page")

    def on_mount(self) -> None:
        """Show the lines."""
        page = self.query_one("#page", LineList)
        page.show_lines(self._page_lines, f" {self._title}   Esc closes")
        page.focus()
