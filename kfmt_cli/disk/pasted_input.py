"""Makes bytes that the user pasted, as an argument or on standard input, readable as a log.

Standard input may also have a log itself; its first bytes decide.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

from kfmt_cli.core.pasted_bytes import (
    HEX_DIGITS,
    PastedBytes,
    PastedTextError,
    is_pasted_text,
    parse_pasted_bytes,
)
from kfmt_cli.core.source import PASTED_NAME, STDIN_PATH
from kfmt_cli.disk.file_access import STDIN, path_exists
from kfmt_cli.disk.kinds.kind import InputFile
from kfmt_cli.disk.kinds.logs import LOG_KIND
from kfmt_cli.errors import InputError

MAX_STDIN_BYTES = 64 << 20  # bytes of text, or of a log that must be read more than once
MAX_QUOTED_CHARACTERS = 40  # of the argument, in messages
ON_PASTED: ContextVar[Callable[[str], None]] = ContextVar("on_pasted", default=lambda _: None)
"""Receives a message that says as what pasted text was read."""


def resolve_pasted_file(path: str, *, needs_file: bool = False) -> InputFile | None:
    """Pasted bytes as a log; None for a path, and for a log on standard input unless `needs_file`.
    Raises InputError for text that is not bytes."""
    if path == STDIN_PATH:
        text = STDIN.peek_text(MAX_STDIN_BYTES)
        pasted = None if text is None else _parse_text(text, STDIN_PATH)
        if pasted is not None:
            STDIN.drain(MAX_STDIN_BYTES)
        elif needs_file:
            pasted = PastedBytes(STDIN.drain(MAX_STDIN_BYTES), "")
        name = STDIN_PATH
    elif not is_pasted_text(path) or path_exists(path):
        return None
    else:
        is_long = len(path) > MAX_QUOTED_CHARACTERS
        quoted = f"{path[:MAX_QUOTED_CHARACTERS]}{'…' if is_long else ''}".splitlines()[0]
        pasted, name = _parse_text(path, quoted), PASTED_NAME
        if pasted is None:
            raise InputError(f"{quoted}: neither a path nor bytes as hex digits, a dump or base64")
    return None if pasted is None else _store_as_log(pasted, name)


def _parse_text(text: str, name: str) -> PastedBytes | None:
    try:
        pasted = parse_pasted_bytes(text)
    except PastedTextError as error:
        noun = "hexadecimal " if text.startswith("hex:") else ""
        raise InputError(f"{name}: {noun}{error}") from None
    if pasted is not None and pasted.format_name != HEX_DIGITS:
        n_bytes = len(pasted.data)
        unit = "byte" if n_bytes == 1 else "bytes"
        ON_PASTED.get()(f"{name}: read as {pasted.format_name}, {n_bytes} {unit}\n")
    return pasted


def _store_as_log(pasted: PastedBytes, name: str) -> InputFile:
    from kfmt_cli.disk.unpacked_files import create_scratch_directory

    log_path = Path(create_scratch_directory()) / f"pasted{LOG_KIND.suffix}"
    log_path.write_bytes(pasted.data)
    return InputFile(str(log_path), name, LOG_KIND)
