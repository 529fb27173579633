"""Start the browser on a terminal, or draw its first screen as a picture."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kfmt_cli.browse.disk_nodes import build_disk_tree
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.errors import NO_OUTPUT_MESSAGE, ExitCode, InputError, OutputError

if TYPE_CHECKING:
    from kfmt_cli.browse.screen.app import BrowserApp
    from kfmt_cli.topics.payloads import PayloadDeclarations

DEFAULT_TERMINAL_SIZE = 80, 24  # without a terminal


def open_session(
    paths: tuple[str, ...],
    topic: str | None = None,
    payloads: PayloadDeclarations | None = None,
    decoding_options: tuple[str, ...] = (),
    decompression_limit: DecompressionLimit | None = None,
) -> BrowserSession:
    """The session for some paths; raises InputError if they have no Kafka files, and UsageError."""
    read_errors: list[str] = []
    root_node = build_disk_tree(paths, read_errors.append)
    if not root_node.children and root_node.file is None:
        reason = read_errors[0] if read_errors else f"{root_node.display_path}: no Kafka files here"
        raise InputError(reason)
    decoder = None if payloads is None else payloads.decoder
    return BrowserSession(
        root_node,
        decoder,
        decoding_options,
        topic,
        decompression_limit or DecompressionLimit(),
        read_errors=read_errors,
    )


def run_session(session: BrowserSession, theme: str) -> int:
    """Browse the paths of a session; the exit code."""
    from kfmt_cli.browse.screen.app import BrowserApp

    if sys.stdout is None:
        raise OutputError(NO_OUTPUT_MESSAGE)
    app = BrowserApp(session, theme=theme)
    if sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty():
        app.run()
        return ExitCode(app.return_code or 0)
    width, height = shutil.get_terminal_size(DEFAULT_TERMINAL_SIZE)
    first_screen_text = asyncio.run(render_first_screen(app, (width, height)))
    os.write(sys.stdout.fileno(), first_screen_text.encode("utf-8", "backslashreplace"))
    return ExitCode.CLEAN


async def render_first_screen(app: BrowserApp, size: tuple[int, int]) -> str:
    """The text of the screen once all work in progress is done."""
    async with app.run_test(size=size) as pilot:
        await wait_until_idle(app, pilot)
        return screen_text(app)


async def wait_until_idle(app: BrowserApp, pilot: Any) -> None:
    """Wait until no thread is at work and everything is drawn."""
    n_unchanged_screens = (
        0  # times in a row that nothing changed: a finished worker may start another
    )
    previous_text = ""
    while n_unchanged_screens < 2:
        await pilot.pause()
        current_text = screen_text(app)
        n_unchanged_screens = (
            n_unchanged_screens + 1 if current_text == previous_text and is_fully_drawn(app) else 0
        )
        previous_text = current_text
        if any(not worker.is_finished for worker in app.workers):
            await app.workers.wait_for_complete()
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
    paths: Sequence[str], keys: Sequence[str], size: tuple[int, int], theme: str = "dark"
) -> str:
    """The screen as SVG, after some key presses."""
    from kfmt_cli.browse.screen.app import BrowserApp

    app = BrowserApp(open_session(tuple(paths)), theme=theme)
    async with app.run_test(size=size) as pilot:
        await wait_until_idle(app, pilot)
        for key in keys:
            await pilot.press(key)
            await wait_until_idle(app, pilot)
        return app.export_screenshot(title="kfmt browse")
