"""The browser's panes and the lines around them: opening nodes, views, and work on threads."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.widgets import Footer, Static, Tree
from textual.worker import get_current_worker

from kfmt_cli.browse.checked import batches_of, checked_together, mark_of
from kfmt_cli.browse.command_line import ViewKind, ViewState, command_text
from kfmt_cli.browse.directory_page import home_lines
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.screen import dialogs
from kfmt_cli.browse.screen.disk_tree import DiskTree
from kfmt_cli.browse.screen.line_list import LineList
from kfmt_cli.browse.screen.log_panes import NARROW, LogPanes
from kfmt_cli.browse.session import Session
from kfmt_cli.browse.text_host import shown_by, wrapped_lines
from kfmt_cli.browse.views import VIEWS, ListedView, ViewedPlace, text_of_view, view_at
from kfmt_cli.disk.opening import is_elsewhere
from kfmt_cli.errors import KfmtError
from kfmt_cli.findings.finding import Finding, Severity
from kfmt_cli.render.style import grouped, safe

GENTLE = 256 << 20  # bytes to check without being asked,
GENTLE_AFAR = 16 << 20  # and bytes of files at a URL
OFTEN = 0.25  # seconds between polls of the threads
FOLLOW = 0.5  # seconds between polls of a growing file
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


class BrowserLayout(App[None]):
    """The panes and lines of the screen."""

    TITLE = "kfmt browse"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW, "-wide")]  # noqa: RUF012
    CSS = (
        dialogs.CSS
        + """
    Screen { layers: base; }
    #tabs { height: 1; background: $surface; }
    #body { height: 1fr; }
    #tree { width: 36; border-right: vkey $surface-lighten-2; }
    .-narrow #tree { width: 34; }
    #text { width: 1fr; }
    #command { height: auto; max-height: 2; padding: 0 1; background: $surface; color: $text; }
    #status { height: 1; color: $text-muted; }
    """
    )

    def __init__(self, session: Session, *, theme: str = "dark", checks: bool = True) -> None:
        """checks: check small inputs without being asked."""
        super().__init__()
        self.session = session
        self.theme = f"textual-{theme}"
        self.view: ListedView | None = None
        self.is_following = False
        self.said = ""
        """The response to the last key."""
        self._checks = checks
        self._checking: set[str] = set()
        self._selected = session.top
        self._lines: dict[str, Text] = {}
        self.disk_tree = DiskTree(session.top, self.mark_of)
        self.panes = LogPanes(session)
        self.text = LineList(id="text", has_cursor=False)

    def compose(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        with Horizontal(id="body"):
            yield from (self.disk_tree, self.panes, self.text)
        yield Static(id="command", markup=False)
        yield Static(id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Show the given paths."""
        self.panes.display = False
        self.set_interval(OFTEN, self._look)
        self.set_interval(FOLLOW, self._follow_on)
        self.disk_tree.focus()
        top = self.session.top
        if top.file is not None:
            self.disk_tree.display = False
            self.call_after_refresh(self.open_node, top)
        else:
            self.show_home(top)
        if self._checks:
            found = list(top.checkable())
            is_afar = any(
                is_elsewhere(log.path) for node in found for log in node.logs()[:1] or [node]
            )
            self._check_all(found, GENTLE_AFAR if is_afar else GENTLE)

    def on_resize(self) -> None:
        """Redo the layout."""
        self.call_after_refresh(self._laid_out)

    def _laid_out(self) -> None:
        self.panes.lay_out()
        if self.view is not None:
            self.show_view(self.view)
        elif self.text.display and self._selected.file is None:
            self.show_home(self._selected)
        self.tell()

    # The tree.

    def mark_of(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a node in the tree, and its style."""
        if node.kind is NodeKind.FILE:
            return self._mark_of_file(node)
        inside = list(node.checkable())
        if any(partition.path in self._checking for partition in inside):
            return "…", "dim"
        known = [self.session.checked[of.path] for of in inside if of.path in self.session.checked]
        for sign, style in (("✗", "bad"), ("!", "warn")):
            marks = [of.mark for of in known if of.mark[1] == style]
            if marks:
                return marks[0] if len(inside) == 1 else (f"{sign}{len(marks)}", style)
        is_whole = known and len(known) == len(inside)
        return ("✓", "good") if is_whole else ("", "dim")

    def _mark_of_file(self, node: DiskNode) -> tuple[str, str]:
        """The mark of a file: its findings, without those of the files next to it."""
        held = self.session.checked.get(self.session.partition_of(node).path)
        found = [f for f in held.findings if f.file == node.name] if held else []
        return mark_of(found) or ("", "dim")

    @on(Tree.NodeHighlighted)
    def highlighted(self, event: Tree.NodeHighlighted[DiskNode]) -> None:
        """Show the home page of the highlighted node."""
        node = event.node.data
        if node is None or node is self._selected:
            return
        self._selected = node
        if node.file is None and self.disk_tree.has_focus:
            if self.view is not None:
                self.show_view(self.view)
            else:
                self.show_home(node)
        self.tell()

    @on(Tree.NodeSelected)
    def selected(self, event: Tree.NodeSelected[DiskNode]) -> None:
        """Open the selected node."""
        node = event.node.data
        if node is None:
            return
        if node.file is not None:
            self.open_node(node)
            return
        event.node.toggle()
        logs = node.logs()
        if node.kind is NodeKind.PARTITION and event.node.is_expanded and len(logs) == 1:
            self.open_node(logs[0])

    def show_home(self, node: DiskNode) -> None:
        """Show the page of a directory."""
        self.view = None
        self.panes.display, self.text.display = False, True
        lines = home_lines(node, self.session.checked, self._checking)
        if node is self.session.top:
            lines += [Text(f" {safe(words)}", style="red") for words in self.session.troubles]
        self.text.show_lines(lines, f" {node.kind.value}")
        self.tell()

    def open_node(self, node: DiskNode) -> None:
        """Show a file: a log's batches, or the entries of another file."""
        self._selected = node
        self.view = None
        self.session.node = node
        if not node.is_log:
            self._show_file(node)
            return
        self.session.open(node, max(self.panes.batches.size.width - 2, 40))
        self.panes.display, self.text.display = True, False
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
        self.panes.focus_on(self.panes.batches)
        self.call_after_refresh(self._opened)

    def _opened(self) -> None:
        self.panes.open()
        self.scan()
        self.call_after_refresh(self.tell)

    def _show_file(self, node: DiskNode) -> None:
        """Show the entries of a file that is not a log, as `kfmt dump` does."""
        from kfmt_cli.commands.dump.command import Dump

        self.session.log = self.session.content = self.session.place = None
        self.panes.display, self.text.display = False, True
        width = self._text_width
        shown = shown_by(lambda run: Dump(run, kinds=None).paths((node.path,)), width)
        self._show_text(shown or "the file is empty", safe(node.label))

    @property
    def _text_width(self) -> int:
        tree = self.disk_tree.size.width + 1 if self.disk_tree.display else 0
        return max(self.size.width - tree - 2, 40)

    def _show_text(self, shown: str, title: str) -> None:
        lines = wrapped_lines(shown, self._text_width)
        self.text.show_lines(lines, f" {title}")
        self.text.focus()
        self.tell()

    # Threads.

    @property
    def is_busy(self) -> bool:
        """Whether the user is waiting for a thread."""
        return False

    def arrived(self) -> bool:
        """Go to the pending place if the outline reaches it; returns whether none is pending."""
        return True

    def progress_words(self) -> str:
        """The progress of a search."""
        return ""

    def reach_on(self) -> None:
        """Extend the outline if the view needs it."""

    def _follow_on(self) -> None:
        """Check whether a followed file has grown."""

    @work(thread=True, exclusive=True, group="scan")
    def scan(self) -> None:
        """Outline the open log, on a thread."""
        log, worker = self.session.log, get_current_worker()
        if log is None:
            return
        outline = log.outline
        until = outline.wanted_bytes
        if not outline.is_whole and (until is None or outline.end < until):
            outline.grow(until, stop=lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.call_from_thread(self._scanned)

    def _scanned(self) -> None:
        self.panes.grow()
        self.arrived()
        self.tell()

    def _look(self) -> None:
        """Show the progress of threads."""
        log = self.session.log
        # The last tick may come when the panes are gone.
        if log is not None and self.query(LogPanes) and self.panes.display:
            if self.panes.batches.n_rows != log.outline.n_rows:
                self.panes.grow()
            self.reach_on()
            if not log.outline.is_whole or self.is_busy:
                self.tell()

    def action_check(self) -> None:
        """Check the selected tree node."""
        node = self.session.partition_of(self._selected)
        found = list(node.checkable()) or [node]
        self.say(f"checking {len(found)} partitions" if len(found) > 1 else "checking")
        self._check_all(found, None)

    @work(thread=True, group="check")
    def _check_all(self, nodes: list[DiskNode], most: int | None) -> None:
        """Check partitions, on a thread. most: skip the check if they have more bytes in total."""
        worker = get_current_worker()
        if most is not None and sum(node.size for node in nodes) > most:
            return
        for group in batches_of(nodes):
            paths = {node.path for node in group}
            self._checking |= paths
            self.call_from_thread(self._marked)
            found = checked_together(group, lambda: worker.is_cancelled)
            self._checking -= paths
            if found is None or worker.is_cancelled:
                return
            for node, its in zip(group, found, strict=True):
                self.session.checked[node.path] = its
        self.call_from_thread(self._marked)

    def _marked(self) -> None:
        self.disk_tree.renew()
        if self.text.display and self.view is None and self._selected.file is None:
            at = self.text.scroll_offset.y
            self.show_home(self._selected)
            self.text.scroll_to(y=at, animate=False, force=True)
        self.tell()

    # Views.

    def action_view(self, key: str) -> None:
        """Show another view of the partition or directory, or return to the batches."""
        if key == "0":
            self.show_log()
            return
        self.show_view(view_at(key))

    def show_log(self) -> None:
        """Return to the log, or to the directory."""
        self.view = None
        if self.session.log is not None:
            self.panes.display, self.text.display = True, False
            self.panes.focus_on(self.panes.batches)
        elif self._selected.file is None:
            self.show_home(self._selected)
            self.disk_tree.focus()
        else:
            self.open_node(self._selected)
        self.tell()

    @property
    def viewed(self) -> ViewedPlace:
        """The node and the offset that views show."""
        node = self.session.partition_of(self._selected)
        content, record = self.session.content, self.session.record
        if content is not None and content.n_records:
            return ViewedPlace(node, content.offset(record or 0))
        return ViewedPlace(node)

    def show_view(self, view: ListedView) -> None:
        """Show a view; a thread makes its text."""
        self.view = view
        self.panes.display, self.text.display = False, True
        if self.screen.has_class("-narrow"):
            self.disk_tree.display = False
            self.text.focus()
        self.text.show_lines([" reading …"], f" {self._title(view)}")
        self._make_view(view, self.viewed, self._text_width)
        self.tell()

    def _title(self, view: ListedView) -> str:
        """The question of a view, after what it is asked of; the command line has the path."""
        label = self.viewed.node.label
        return f"{safe(label.rpartition('/')[2] or label)}: {view.question}"

    @work(thread=True, exclusive=True, group="view")
    def _make_view(self, view: ListedView, place: ViewedPlace, width: int) -> None:
        worker = get_current_worker()
        shown = text_of_view(view, place, width, lambda: worker.is_cancelled)
        if not worker.is_cancelled:
            self.call_from_thread(self._viewed, view, shown)

    def _viewed(self, view: ListedView, shown: str) -> None:
        if self.view is not view:
            return
        has_keys = self.disk_tree.has_focus
        self._show_text(shown, self._title(view))
        if view.finds and len(shown.splitlines()) >= self.text.size.height:
            # As on a terminal, the losses and the remedies come last.
            self.text.heading = f" {self._title(view)}   Home: all findings"
            self.text.scroll_end(animate=False, force=True)
        if has_keys:
            self.disk_tree.focus()

    # Lines around the panes.

    @on(LogPanes.Changed)
    def changed(self) -> None:
        """Update the command line after a new selection."""
        self.tell()

    def say(self, words: str, style: str = "") -> None:
        """Show the response to a key in the status line."""
        self.said, self._said_style, self._said_at = words, style, self._here
        self.tell()

    _said_style = ""
    _said_at: object = None

    @property
    def _here(self) -> object:
        """The selection; a response is shown until it changes."""
        place = self.session.place
        where = None if place is None else (place.position, self.session.record)
        return self.session.node, where, self.view

    def tell(self) -> None:
        """Update the lines around the panes."""
        if not self.is_running or len(self.screen_stack) > 1:
            return
        self._put("tabs", self._tabs())
        command = Text.assemble(("$ ", "dim"), (self.command_line(), "bold"), overflow="fold")
        self._put("command", command, layout=True)
        if self.said and self._said_at != self._here:
            self.said = ""
        of_panes = self._log_words() if self.panes.display else ""
        words = self.progress_words() or self.said or of_panes
        style = self._said_style if self.said else ""
        status = Text(" ", no_wrap=True)
        if self.is_following and self.panes.display:
            status.append("FOLLOWING", style="bold reverse")
            status.append(" ")
        self._put("status", status.append(words, style=style))

    def _log_words(self) -> str:
        """The selected batch, and the mark of the log unless it grows since it was checked."""
        node, words = self.session.node, self.panes.words()
        mark = "" if node is None or self.is_following else self._mark_of_file(node)[0]
        return f"{words}   {mark}: n goes to it" if mark else words

    def _put(self, name: str, text: Text, *, layout: bool = False) -> None:
        """Update one of the lines, if its text has changed."""
        known = self._lines.get(name)
        if known is None or known.markup != text.markup:
            self._lines[name] = text
            self.query_one(f"#{name}", Static).update(text, layout=layout)

    def _tabs(self) -> Text:
        text = Text(no_wrap=True, end="")
        chosen = "0" if self.view is None else self.view.key
        for key, name in (("0", "Browse"), *((view.key, view.name) for view in VIEWS)):
            style = Style(reverse=key == chosen, meta={"@click": f"app.view('{key}')"})
            is_wide = self.size.width >= NARROW
            text.append(f"{key} {name}" if is_wide else f"{key}{name}", style=style)
            text.append("  " if is_wide else " ")
        return text

    @property
    def view_state(self) -> ViewState:
        """The state of the screen."""
        if self.view is not None:
            return ViewState(ViewKind.VIEW, command=tuple(self._view_command(self.view)))
        if self.panes.display:
            return self.panes.state()
        if self._selected.file is not None:
            return ViewState(ViewKind.VIEW, command=("dump", self._selected.name))
        return ViewState(ViewKind.VIEW, command=("check", *self._selected.names))

    def _view_command(self, view: ListedView) -> list[str]:
        try:
            return view.command(self.viewed)
        except KfmtError:
            return [view.name.lower(), *self.viewed.node.names]

    def command_line(self) -> str:
        """The command line equivalent to the screen."""
        try:
            return command_text(self.view_state)
        except KfmtError as error:
            return safe(str(error))

    def tell_finding(self, finding: Finding, at: int, number: int, more: int) -> None:
        """Show a finding in the status line. more: how many others are counted only."""
        place = "" if finding.position is None else f" byte {grouped(finding.position)}"
        what = f"{finding.code.name}{place}: {safe(finding.message)}"
        counted = f", {grouped(more)} more not shown" if more else ""
        words = f"{at + 1} of {number}{counted} (e explains)  {what}"
        self.say(words, STYLES[finding.code.severity])

    def page(self, title: str, lines: list[Text | str]) -> None:
        """Show a page in a window."""
        self.push_screen(dialogs.PageWindow(title, lines), lambda _: self.tell())
