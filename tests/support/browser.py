"""The browser on a terminal, driven by the keys that tests press."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from kfmt_cli.browse.headless import screen_text, wait_until_idle
from kfmt_cli.browse.launch import open_session
from kfmt_cli.browse.screen.app import BrowserApp
from kfmt_cli.browse.session import OpenedLog, SearchState
from tests.support.samples import kfmt

BROKER = "sample_segments/kafka-3.9.1-broker1"
TXN = f"{BROKER}/txn-0/00000000000000000000.log"
FLIPPED = "damaged_segments/flipped-bit-0/00000000000000000000.log"
SMALL, LARGE = (80, 24), (160, 50)


class Driver:
    """Presses keys, and reads the screen."""

    def __init__(self, app: BrowserApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> str:
        """Press keys one after the other; return the text of the screen."""
        for key in keys:
            await self.pilot.press(key)
            await wait_until_idle(self.app, self.pilot)
        return self.screen

    async def type(self, text: str) -> str:
        """Type a line into a dialog and confirm it."""
        self.app.screen.query_one(Input).value = text
        return await self.press("enter")

    @property
    def screen(self) -> str:
        return screen_text(self.app)

    @property
    def focused(self) -> str | None:
        """The id of the focused pane."""
        return None if self.app.focused is None else self.app.focused.id

    @property
    def command(self) -> list[str]:
        """The command line on the screen."""
        import shlex

        return shlex.split(self.app.command_line())

    @property
    def opened_log(self) -> OpenedLog:
        """The open log."""
        assert self.app.session.opened_log is not None
        return self.app.session.opened_log

    @property
    def search_state(self) -> SearchState:
        """The last search."""
        assert self.app.session.search is not None
        return self.app.session.search

    @property
    def rows(self) -> tuple[int, int]:
        """The selected lines of the batches and of the records."""
        return self.app.log_panes.batch_pane.cursor_row, self.app.log_panes.record_pane.cursor_row


@asynccontextmanager
async def open_browser(
    *paths: str | Path, size: tuple[int, int] = SMALL, **options: Any
) -> AsyncIterator[Driver]:
    """Open the browser on paths."""
    app = BrowserApp(open_session(tuple(map(str, paths))), **options)
    async with app.run_test(size=size) as pilot:
        await wait_until_idle(app, pilot)
        yield Driver(app, pilot)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def check_command(command: list[str], expected: str) -> None:
    """Check that a command line from the screen runs, and prints what the screen showed."""
    assert command[0] == "kfmt"
    result = kfmt(*command[1:])
    assert expected in result.out + result.err
