"""Suggestions for a path that does not exist: a similar name, or the segment with an offset."""

from __future__ import annotations

import os
import re

from kfmt_cli.core.urls import format_display_name, is_local
from kfmt_cli.disk.mounts import MOUNTS
from kfmt_cli.errors import unknown_name_question

MAX_COMPARED_NAMES = 10_000
_SEGMENT_FILE = re.compile(r"(\d{1,20})(\.(?:log|index|timeindex|txnindex|snapshot))")


def missing_path_message(path: str) -> str:
    """The message for a path that does not exist, with suggestions."""
    message = f"{format_display_name(path)}: No such file or directory"
    parent, _, name = path.rstrip(os.sep).rpartition(os.sep)
    if not name or not is_local(path) or MOUNTS.find_tree_and_subpath(path) is not None:
        return message
    try:
        names = os.listdir(parent or os.curdir)[:MAX_COMPARED_NAMES]  # noqa: PTH208 (names)
    except (OSError, ValueError):  # the parent does not exist, or has a zero byte
        return message
    if match := _SEGMENT_FILE.fullmatch(name):
        return message + _segment_hint(int(match[1]), match[2], names)
    return message + unknown_name_question(name, names, display=format_display_name)


def _segment_hint(offset: int, suffix: str, names: list[str]) -> str:
    """The end of the message about a segment's file: the file of the segment with the offset."""
    segments = [m for m in map(_SEGMENT_FILE.fullmatch, names) if m is not None and m[2] == suffix]
    earlier_segments = [segment for segment in segments if int(segment[1]) <= offset]
    if not earlier_segments:
        return ""
    segment = max(earlier_segments, key=lambda segment: int(segment[1]))
    return f"; offset {offset} would be in {segment[0]}"
