"""The attributes of a batch line as header bits."""

from __future__ import annotations

from kfmt_cli.formats.batch import (
    CODECS,
    CONTROL,
    DELETE_HORIZON,
    TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
)
from kfmt_cli.writing.batches import CODEC_MASK
from kfmt_cli.writing.build.jsonl import AttributesOfLine, Batch, wrong
from kfmt_cli.writing.build.options import Options

NO_TYPE = "NoTimestampType"  # a dump's value for magic 0


def attributes_of(line: Batch, options: Options) -> int:
    """The attributes as a signed 16-bit number; raises LineError.

    Named attributes override the bits of `raw`; options override both.
    """
    given = line.attributes or AttributesOfLine()
    if not -(1 << 15) <= given.raw < 1 << 16:
        raise wrong(line, f"raw attributes {given.raw} do not fit in 16 bits")
    bits = given.raw & 0xFFFF
    if given.compression is not None:
        if given.compression not in CODECS:
            raise wrong(line, f"compression {given.compression!r}: choose from {', '.join(CODECS)}")
        bits = bits & ~CODEC_MASK | CODECS.index(given.compression)
    for named in (TRANSACTIONAL, CONTROL, DELETE_HORIZON):
        value = getattr(given, named.name)
        if value is not None:
            bits = bits & ~named.mask | (named.mask if value else 0)
    if given.timestamp_type not in (None, NO_TYPE, *TIMESTAMP_TYPES):
        words = f"timestamp_type {given.timestamp_type!r}: choose from {', '.join(TIMESTAMP_TYPES)}"
        raise wrong(line, words)
    if given.timestamp_type in TIMESTAMP_TYPES:
        bits = _with_type(bits, TIMESTAMP_TYPES.index(given.timestamp_type))
    if options.timestamp_type is not None:
        bits = _with_type(bits, options.timestamp_type)
    if options.codec is not None and not bits & CONTROL.mask:
        bits = bits & ~CODEC_MASK | options.codec
    if options.transactional:
        bits |= TRANSACTIONAL.mask
    if bits & CODEC_MASK >= len(CODECS):
        raise wrong(line, f"codec {bits & CODEC_MASK} does not exist")
    return bits - (1 << 16) if bits & 0x8000 else bits


def _with_type(bits: int, timestamp_type: int) -> int:
    return bits & ~TIMESTAMP_TYPE.mask | TIMESTAMP_TYPE.mask * timestamp_type
