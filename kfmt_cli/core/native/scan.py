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
def _int32(data: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = data[position]
    if value >= 128:
        value -= 256
    return ((value * 256 + data[position + 1]) * 256 + data[position + 2]) * 256 + data[
        position + 3
    ]


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
    n_batches: cython.Py_ssize_t = 0
    region: cython.Py_ssize_t
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    batch_length: cython.longlong
    magic: cython.int
    reason: cython.int
    capacity: cython.Py_ssize_t = batches.shape[1]
    n_magics: cython.Py_ssize_t = min_lengths.shape[0]
    with cython.nogil:
        for region in range(regions.shape[1]):
            position = regions[0, region]
            end = regions[1, region]
            reason = WALK_END
            while position < end:
                if end - position < 17:
                    reason = WALK_MORE
                    break
                batch_length = _int32(data, position + 8)
                magic = data[position + 16]
                if magic >= n_magics:
                    reason = WALK_MAGIC
                    break
                if batch_length < min_lengths[magic]:
                    reason = WALK_SIZE
                    break
                if batch_length + 12 > end - position:
                    reason = WALK_MORE
                    break
                if n_batches >= capacity:
                    reason = WALK_FULL
                    break
                batches[0, n_batches] = position
                position += 12 + batch_length
                batches[1, n_batches] = position
                batches[2, n_batches] = region
                n_batches += 1
            regions[2, region] = position
            regions[3, region] = reason
    return n_batches


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
    header_start: cython.Py_ssize_t
    i: cython.Py_ssize_t
    checked_position: cython.Py_ssize_t
    magic: cython.int
    batch_length: cython.longlong
    is_plausible: cython.bint
    found_start: cython.Py_ssize_t = -1
    with cython.nogil:
        for header_start in range(start, end - 16):
            magic = data[header_start + 16]
            if magic >= min_lengths.shape[0]:
                continue
            batch_length = _int32(data, header_start + 8)
            if (
                batch_length < min_lengths[magic]
                or batch_length + 12 > available_end - header_start
            ):
                continue
            is_plausible = True
            for i in range(zero_bits.shape[0]):
                checked_position = header_start + zero_bits[i, 1]
                if (
                    zero_bits[i, 0] == magic
                    and checked_position < end
                    and data[checked_position] & zero_bits[i, 2]
                ):
                    is_plausible = False
                    break
            if is_plausible:
                found_start = header_start
                break
    return found_start


def find_nonzero(
    data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t
):
    """The position of the first byte in [start, end) that is not zero, or `end`."""
    at: cython.Py_ssize_t
    nonzero_position: cython.Py_ssize_t = end
    with cython.nogil:
        for at in range(start, end):
            if data[at] != 0:
                nonzero_position = at
                break
    return nonzero_position


def compute_crcs(
    data: cython.const[cython.uchar][::1],
    regions: cython.const[cython.longlong][:, ::1],
    slicing_table: cython.const[cython.uint][::1],
    crcs: cython.longlong[::1],
):
    """Compute the reflected 32-bit CRC of each region.

    regions: (2, n), start and end. slicing_table: 8 × 256 words, for slicing by eight. crcs: the
    CRCs.
    """
    region: cython.Py_ssize_t
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    crc: cython.uint
    with cython.nogil:
        for region in range(regions.shape[1]):
            position = regions[0, region]
            end = regions[1, region]
            crc = ONES
            while end - position >= 8:
                crc = (
                    slicing_table[1792 + ((crc & 0xFF) ^ data[position])]
                    ^ slicing_table[1536 + (((crc >> 8) & 0xFF) ^ data[position + 1])]
                    ^ slicing_table[1280 + (((crc >> 16) & 0xFF) ^ data[position + 2])]
                    ^ slicing_table[1024 + ((crc >> 24) ^ data[position + 3])]
                    ^ slicing_table[768 + data[position + 4]]
                    ^ slicing_table[512 + data[position + 5]]
                    ^ slicing_table[256 + data[position + 6]]
                    ^ slicing_table[data[position + 7]]
                )
                position += 8
            while position < end:
                crc = (crc >> 8) ^ slicing_table[(crc & 0xFF) ^ data[position]]
                position += 1
            crcs[region] = crc ^ ONES


def hash_json_lines(
    data: cython.const[cython.uchar][::1], end: cython.Py_ssize_t, lines: cython.longlong[:, ::1]
):
    """Find the end of each JSON line and a hash of its keys and brackets, without its values.

    Lines with the same hash have the same keys in the same objects. Returns the number of lines
    before byte `end`, including the bytes after the last line end, which may be none. lines: (2,
    capacity), output: end and hash. It needs a column for each line end and one more.
    """
    n_lines: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t = 0
    key_position: cython.Py_ssize_t
    key_start: cython.Py_ssize_t = 0
    key_end: cython.Py_ssize_t = 0
    byte: cython.uchar
    line_hash: cython.ulonglong = FNV_OFFSET_BASIS
    with cython.nogil:
        while position < end:
            byte = data[position]
            if byte == 0x22:
                key_start = position
                position += 1
                while position < end:
                    byte = data[position]
                    if byte == 0x22 or byte == 0x0A:
                        break
                    position += 2 if byte == 0x5C else 1
                key_end = position
                if byte == 0x0A:
                    continue  # a string cannot contain a line end
            elif byte == 0x3A or byte == 0x7B or byte == 0x7D or byte == 0x5B or byte == 0x5D:
                line_hash = ((line_hash ^ byte) * FNV_PRIME) & HASH_MASK
                if byte == 0x3A:
                    for key_position in range(key_start, min(key_end, end)):
                        line_hash = ((line_hash ^ data[key_position]) * FNV_PRIME) & HASH_MASK
            elif byte == 0x0A:
                lines[0, n_lines] = position + 1
                lines[1, n_lines] = cython.cast(cython.longlong, line_hash >> 1)
                n_lines += 1
                line_hash = FNV_OFFSET_BASIS
            position += 1
        lines[0, n_lines] = end
        lines[1, n_lines] = cython.cast(cython.longlong, line_hash >> 1)
    return n_lines + 1
