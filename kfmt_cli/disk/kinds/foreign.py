"""Files that are often found in the place of a broker's: what they are, by how they begin."""

from __future__ import annotations

START = 64  # bytes that tell

# Files of a broker that hold neither batches nor entries that kfmt reads.
OTHER_FILES = frozenset({".lock"})

_SIGNATURES = (
    (b"version https://git-lfs.github.com/spec/", "a Git LFS pointer: git lfs pull gets the file"),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<?xml", "an XML document"),
)


def foreign_words(start: bytes) -> str | None:
    """What a file is that begins with these bytes, None where they do not tell."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return next((words for signature, words in _SIGNATURES if text.startswith(signature)), None)
