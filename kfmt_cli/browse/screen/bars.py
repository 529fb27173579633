"""The lines around the panes; each is drawn again when its content changes."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widgets import Static

from kfmt_cli.browse.views import VIEWS


class TabBar(Static):
    """The tabs of the views."""

    DEFAULT_CSS = "TabBar { height: 1; background: $surface; }"
    active_key: reactive[str] = reactive("0")
    """The key of the view on the screen, 0 for the browser."""
    is_wide: reactive[bool] = reactive(False)

    def render(self) -> Text:
        text = Text(no_wrap=True, end="")
        for view_key, view_label in (("0", "Browse"), *((view.key, view.label) for view in VIEWS)):
            tab_style = Style(
                reverse=view_key == self.active_key, meta={"@click": f"app.view('{view_key}')"}
            )
            text.append(f"{view_key}{' ' if self.is_wide else ''}{view_label}", style=tab_style)
            text.append("  " if self.is_wide else " ")
        return text


class CommandBar(Static):
    """The command line equivalent to the screen."""

    DEFAULT_CSS = """
    CommandBar { height: auto; max-height: 2; padding: 0 1; background: $surface; color: $text; }
    """
    command: reactive[str] = reactive("", layout=True)

    def render(self) -> Text:
        return Text.assemble(("$ ", "dim"), (self.command, "bold"), overflow="fold")


class StatusBar(Static):
    """The response to the last key, until the selection changes; otherwise the state of the log."""

    DEFAULT_CSS = "StatusBar { height: 1; color: $text-muted; }"
    status_text: reactive[Text] = reactive(Text(" "))
    message = ""
    """The response to the last key."""
    _message_style = ""
    _message_selection: object = None

    def set_message(self, message: str, message_style: str, selection: object) -> None:
        """Set the response to a key, for the current selection."""
        self.message, self._message_style = message, message_style
        self._message_selection = selection

    def show_status(
        self, selection: object, progress_text: str, log_status: str, *, is_following: bool
    ) -> None:
        """Show the progress of a search, the message, or the state of the log."""
        if self._message_selection != selection:
            self.message = ""
        status_text = Text(" ", no_wrap=True)
        if is_following:
            status_text.append("FOLLOWING", style="bold reverse")
            status_text.append(" ")
        message_style = self._message_style if self.message else ""
        displayed_text = progress_text or self.message or log_status
        self.status_text = status_text.append(displayed_text, style=message_style)

    def render(self) -> Text:
        return self.status_text
