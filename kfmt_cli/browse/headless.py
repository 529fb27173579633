"""The browser without a terminal: its screen as text or as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from textual.worker import WorkerCancelled

from kfmt_cli.browse.screen.app import BrowserApp
from kfmt_cli.browse.session import BrowserSession


async def render_first_screen(app: BrowserApp, size: tuple[int, int]) -> str:
    """The text of the screen once all work in progress is done."""
    async with app.run_test(size=size) as pilot:
        await wait_until_idle(app, pilot)
        return screen_text(app)


async def wait_until_idle(app: BrowserApp, pilot: Any) -> None:
    """Wait until no thread is at work and everything is drawn."""
    n_unchanged_screens = 0  # in a row: a finished worker may start another
    previous_text = ""
    while n_unchanged_screens < 2:
        await pilot.pause()
        current_text = screen_text(app)
        is_unchanged = current_text == previous_text and is_fully_drawn(app)
        n_unchanged_screens = n_unchanged_screens + 1 if is_unchanged else 0
        previous_text = current_text
        workers = [worker for worker in app.workers if not worker.is_finished]
        if workers:
            with suppress(WorkerCancelled):
                await app.workers.wait_for_complete(workers)
            n_unchanged_screens = 0


def is_fully_drawn(app: BrowserApp) -> bool:
    """Whether the screen has drawn all changes and called the callbacks that waited for that.

    A callback first waits as a message in a widget's queue, so the queues must be empty too.
    """
    screen = app.screen
    if any(pump.message_queue_size for pump in (app, screen, *screen.walk_children())):
        return False
    is_update_due = screen._layout_required or screen._scroll_required or screen._repaint_required
    return not (is_update_due or screen._dirty_widgets or screen._callbacks)


def screen_text(app: BrowserApp) -> str:
    """The text on the screen."""
    screen_lines = app.screen._compositor.render_strips()
    return "".join(f"{line.text.rstrip()}\n" for line in screen_lines)


async def render_svg(
    session: BrowserSession, keys: Sequence[str], size: tuple[int, int], theme: str = "dark"
) -> str:
    """The screen as SVG, after some key presses."""
    app = BrowserApp(session, theme=theme)
    async with app.run_test(size=size) as pilot:
        await wait_until_idle(app, pilot)
        for key in keys:
            await pilot.press(key)
            await wait_until_idle(app, pilot)
        return app.export_screenshot(title="kfmt browse")
