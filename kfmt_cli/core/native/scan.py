"""Compiled loops over raw bytes: batch lengths, headers, zeros, CRCs, the keys of JSON lines.

Ordinary Python that Cython also compiles, with bounds checks on.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

COMPILED: bool = bool(cython.compiled)

# Why the walk of a region stopped.
WALK_END = cython.declare(cython.int, 0)
WALK_MORE = cython.declare(cython.int, 1)  # a header or a batch exceeds the region
WALK_SIZE = cython.declare(cython.int, 2)  # a length below the minimum of its magic
WALK_MAGIC = cython.declare(cython.int, 3)
WALK_FULL = cython.declare(cython.int, 4)  # no capacity for more batches

WALK_STOP_REASONS = {
    "END": WALK_END,
    "MORE": WALK_MORE,
    "SIZE": WALK_SIZE,
    "MAGIC": WALK_MAGIC,
    "FULL": WALK_FULL,
}

ONES = cython.declare(cython.uint, 0xFFFFFFFF)
# The 64-bit hash FNV-1a.
FNV_OFFSET_BASIS = cython.declare(cython.ulonglong, 0xCBF29CE484222325)
FNV_PRIME = cython.declare(cython.ulonglong, 0x100000001B3)
HASH_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=True)
def _int32(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = data[at]
    if value >= 128:
        value -= 256
    return ((value * 256 + data[at + 1]) * 256 + data[at + 2]) * 256 + data[at + 3]


def walk_batches(
    data: cython.const[cython.uchar][::1],
    regions: cython.longlong[:, ::1],
    min_lengths: cython.const[cython.longlong][::1],
    batches: cython.longlong[:, ::1],
):
    """Follow batch lengths through each region; returns the number of batches found.

    regions: (4, n). Start and end are inputs; where the walk stopped and why (`WALK_STOP_REASONS`)
    are outputs. min_lengths: the minimum of the length field, by magic. batches: (3, capacity),
    output: start, end and region of each batch.
    """
    n: cython.Py_ssize_t = 0
    r: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.longlong
    magic: cython.int
    reason: cython.int
    capacity: cython.Py_ssize_t = batches.shape[1]
    n_magics: cython.Py_ssize_t = min_lengths.shape[0]
    with cython.nogil:
        for r in range(regions.shape[1]):
            at = regions[0, r]
            end = regions[1, r]
            reason = WALK_END
            while at < end:
                if end - at < 17:
                    reason = WALK_MORE
                    break
                size = _int32(data, at + 8)
                magic = data[at + 16]
                if magic >= n_magics:
                    reason = WALK_MAGIC
                    break
                if size < min_lengths[magic]:
                    reason = WALK_SIZE
                    break
                if size + 12 > end - at:
                    reason = WALK_MORE
                    break
                if n >= capacity:
                    reason = WALK_FULL
                    break
                batches[0, n] = at
                at += 12 + size
                batches[1, n] = at
                batches[2, n] = r
                n += 1
            regions[2, r] = at
            regions[3, r] = reason
    return n


def find_batch_header(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    min_lengths: cython.const[cython.longlong][::1],
    zero_bits: cython.const[cython.longlong][:, ::1],
    available_end: cython.longlong,
):
    """The first position of a possible batch header that is in [start, end - 16), or -1.

    min_lengths: the minimum of the length field, by magic. zero_bits: rows (magic, byte of the
    header, mask) of bits that are never set. available_end: the maximum end of a batch, as a
    position in `data`, which may lack the file's later bytes.
    """
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    position: cython.Py_ssize_t
    magic: cython.int
    size: cython.longlong
    plausible: cython.bint
    found: cython.Py_ssize_t = -1
    with cython.nogil:
        for at in range(start, end - 16):
            magic = data[at + 16]
            if magic >= min_lengths.shape[0]:
                continue
            size = _int32(data, at + 8)
            if size < min_lengths[magic] or size + 12 > available_end - at:
                continue
            plausible = True
            for i in range(zero_bits.shape[0]):
                position = at + zero_bits[i, 1]
                if zero_bits[i, 0] == magic and position < end and data[position] & zero_bits[i, 2]:
                    plausible = False
                    break
            if plausible:
                found = at
                break
    return found


def find_nonzero(
    data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t
):
    """The position of the first byte in [start, end) that is not zero, or `end`."""
    at: cython.Py_ssize_t
    position: cython.Py_ssize_t = end
    with cython.nogil:
        for at in range(start, end):
            if data[at] != 0:
                position = at
                break
    return position


def compute_crcs(
    data: cython.const[cython.uchar][::1],
    regions: cython.const[cython.longlong][:, ::1],
    table: cython.const[cython.uint][::1],
    out: cython.longlong[::1],
):
    """Compute the reflected 32-bit CRC of each region.

    regions: (2, n), start and end. table: 8 × 256 words, for slicing by eight. out: the CRCs.
    """
    r: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    value: cython.uint
    with cython.nogil:
        for r in range(regions.shape[1]):
            at = regions[0, r]
            end = regions[1, r]
            value = ONES
            while end - at >= 8:
                value = (
                    table[1792 + ((value & 0xFF) ^ data[at])]
                    ^ table[1536 + (((value >> 8) & 0xFF) ^ data[at + 1])]
                    ^ table[1280 + (((value >> 16) & 0xFF) ^ data[at + 2])]
                    ^ table[1024 + ((value >> 24) ^ data[at + 3])]
                    ^ table[768 + data[at + 4]]
                    ^ table[512 + data[at + 5]]
                    ^ table[256 + data[at + 6]]
                    ^ table[data[at + 7]]
                )
                at += 8
            while at < end:
                value = (value >> 8) ^ table[(value & 0xFF) ^ data[at]]
                at += 1
            out[r] = value ^ ONES


def hash_json_lines(
    data: cython.const[cython.uchar][::1], end: cython.Py_ssize_t, lines: cython.longlong[:, ::1]
):
    """Find the end of each JSON line and a hash of its keys and brackets, without its values.

    Lines with the same hash have the same keys in the same objects. Returns the number of lines
    before byte `end`, including the bytes after the last line end, which may be none. lines: (2,
    capacity), output: end and hash. It needs a column for each line end and one more.
    """
    n: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    key_start: cython.Py_ssize_t = 0
    key_end: cython.Py_ssize_t = 0
    byte: cython.uchar
    line_hash: cython.ulonglong = FNV_OFFSET_BASIS
    with cython.nogil:
        while at < end:
            byte = data[at]
            if byte == 0x22:
                key_start = at
                at += 1
                while at < end:
                    byte = data[at]
                    if byte == 0x22 or byte == 0x0A:
                        break
                    at += 2 if byte == 0x5C else 1
                key_end = at
                if byte == 0x0A:
                    continue  # a string cannot contain a line end
            elif byte == 0x3A or byte == 0x7B or byte == 0x7D or byte == 0x5B or byte == 0x5D:
                line_hash = ((line_hash ^ byte) * FNV_PRIME) & HASH_MASK
                if byte == 0x3A:
                    for i in range(key_start, min(key_end, end)):
                        line_hash = ((line_hash ^ data[i]) * FNV_PRIME) & HASH_MASK
            elif byte == 0x0A:
                lines[0, n] = at + 1
                lines[1, n] = cython.cast(cython.longlong, line_hash >> 1)
                n += 1
                line_hash = FNV_OFFSET_BASIS
            at += 1
        lines[0, n] = end
        lines[1, n] = cython.cast(cython.longlong, line_hash >> 1)
    return n + 1
