"""Start the browser on a terminal, or print its first screen."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from typing import TYPE_CHECKING

from kfmt_cli.browse.disk_nodes import build_disk_tree
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.core.codecs.decompress import DecompressionLimit
from kfmt_cli.errors import NO_OUTPUT_MESSAGE, ExitCode, InputError, OutputError

if TYPE_CHECKING:
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
    from kfmt_cli.browse.headless import render_first_screen
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
