"""Files often found in place of a broker file, identified by their first bytes."""

from __future__ import annotations

MAX_SIGNATURE_BYTES = 64  # bytes needed to identify a file

# Broker files that contain neither batches nor entries that kfmt reads.
OTHER_BROKER_FILES = frozenset({".lock"})

_TEXT_SIGNATURES = (
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer; run git lfs pull to fetch the file",
    ),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<?xml", "an XML document"),
)
# Files compressed as a whole, whose bytes may contain complete batches.
_COMPRESSED_SIGNATURES = (
    (b"\x1f\x8b\x08", "gzip; use gunzip -c FILE | kfmt dump -, or rename it to *.gz"),
    (b"\x28\xb5\x2f\xfd", "zstd; use zstd -dc FILE | kfmt dump -, or rename it to *.zst"),
    (b"\x04\x22\x4d\x18", "lz4; use lz4 -dc FILE | kfmt dump -, or rename it to *.lz4"),
    (b"PK\x03\x04", "a zip archive; unzip it first"),
)


def has_compressed_signature(first_bytes: bytes) -> bool:
    """Whether a file that begins with these bytes is compressed as a whole."""
    return any(first_bytes.startswith(signature) for signature, _ in _COMPRESSED_SIGNATURES)


def describe_foreign_file(first_bytes: bytes) -> str | None:
    """The description of a file that begins with these bytes, None if unknown."""
    lowercase_bytes = first_bytes.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    descriptions = [
        description
        for signature, description in _COMPRESSED_SIGNATURES
        if first_bytes.startswith(signature)
    ]
    descriptions += (
        description
        for signature, description in _TEXT_SIGNATURES
        if lowercase_bytes.startswith(signature)
    )
    return next(iter(descriptions), None)
