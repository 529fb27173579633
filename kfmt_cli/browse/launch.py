"""Start the browser on a terminal, or draw its first screen as a picture."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kfmt_cli.browse.disk_nodes import disk_of
from kfmt_cli.browse.session import Session
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.errors import NO_OUTPUT, ExitCode, InputError, OutputError

if TYPE_CHECKING:
    from kfmt_cli.browse.screen.app import BrowserApp
    from kfmt_cli.topics.payloads import Payloads

SIZE = 80, 24  # without a terminal


def session_of(
    paths: tuple[str, ...],
    topic: str | None = None,
    payloads: Payloads | None = None,
    decoding: tuple[str, ...] = (),
    limit: Limit | None = None,
) -> Session:
    """The session for some paths; raises InputError if they have no Kafka files, and UsageError."""
    troubles: list[str] = []
    top = disk_of(paths, troubles.append)
    if not top.children and top.file is None:
        words = troubles[0] if troubles else f"{top.name}: no Kafka files here"
        raise InputError(words)
    decoder = None if payloads is None else payloads.decoder
    return Session(top, decoder, decoding, topic, limit or Limit(), troubles=troubles)


def show_session(session: Session, theme: str) -> int:
    """Browse the paths of a session; the exit code."""
    from kfmt_cli.browse.screen.app import BrowserApp

    if sys.stdout is None:
        raise OutputError(NO_OUTPUT)
    app = BrowserApp(session, theme=theme)
    if sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty():
        app.run()
        return ExitCode(app.return_code or 0)
    width, height = shutil.get_terminal_size(SIZE)
    text = asyncio.run(first_screen(app, (width, height)))
    os.write(sys.stdout.fileno(), text.encode("utf-8", "backslashreplace"))
    return ExitCode.CLEAN


async def first_screen(app: BrowserApp, size: tuple[int, int]) -> str:
    """The text of the screen once all work in progress is done."""
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        return screen_text(app)


async def settled(app: BrowserApp, pilot: Any) -> None:
    """Wait until no thread is at work and everything is drawn."""
    calm = 0  # times in a row that nothing changed: a finished worker may start another
    before = ""
    while calm < 2:
        await pilot.pause()
        shown = screen_text(app)
        calm = calm + 1 if shown == before and is_drawn(app) else 0
        before = shown
        if any(not worker.is_finished for worker in app.workers):
            await app.workers.wait_for_complete()
            calm = 0


def is_drawn(app: BrowserApp) -> bool:
    """Whether the screen has drawn all changes, and done what waited for that; what is to wait for
    it begins as a message to a widget."""
    screen = app.screen
    if any(pump.message_queue_size for pump in (app, screen, *screen.walk_children())):
        return False
    is_due = screen._layout_required or screen._scroll_required or screen._repaint_required
    return not (is_due or screen._dirty_widgets or screen._callbacks)


def screen_text(app: BrowserApp) -> str:
    """The text on the screen."""
    lines = app.screen._compositor.render_strips()
    return "".join(f"{line.text.rstrip()}\n" for line in lines)


async def picture(
    paths: Sequence[str], keys: Sequence[str], size: tuple[int, int], theme: str = "dark"
) -> str:
    """The screen as SVG, after some key presses."""
    from kfmt_cli.browse.screen.app import BrowserApp

    app = BrowserApp(session_of(tuple(paths)), theme=theme)
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)
        return app.export_screenshot(title="kfmt browse")
