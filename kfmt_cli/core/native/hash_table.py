"""A compiled hash table from 64-bit hashes to offsets: the latest offset of each key.

Ordinary Python that Cython also compiles, like `core/native/kernel.py`, with bounds checks on.
"""

try:
    import cython
except ImportError:
    from kfmt_cli.core.native import pure as cython

COMPILED: bool = bool(cython.compiled)


def put(
    keys: cython.longlong[::1],
    offsets: cython.longlong[::1],
    hashes: cython.const[cython.longlong][::1],
    values: cython.const[cython.longlong][::1],
    room: cython.longlong,
    counts: cython.longlong[::1],
):
    """Give each hash its offset, a later one in the place of an earlier one.

    keys, offsets: the table, its size a power of two, at least one key 0. room: hashes that it may
    have at most. counts[0]: those that it has, updated. How many hashes were taken: fewer where
    the table has all that it may have.
    """
    mask: cython.Py_ssize_t = keys.shape[0] - 1
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    n: cython.longlong = counts[0]
    key: cython.longlong
    for i in range(hashes.shape[0]):
        if n >= room:
            counts[0] = n
            return i
        key = hashes[i]
        at = key & mask
        while keys[at] != 0 and keys[at] != key:
            at = (at + 1) & mask
        if keys[at] == 0:
            keys[at] = key
            n += 1
        offsets[at] = values[i]
    counts[0] = n
    return hashes.shape[0]


def get(
    keys: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    hashes: cython.const[cython.longlong][::1],
    found: cython.longlong[::1],
):
    """The offset of each hash, -1 where the table has none."""
    mask: cython.Py_ssize_t = keys.shape[0] - 1
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    key: cython.longlong
    for i in range(hashes.shape[0]):
        key = hashes[i]
        at = key & mask
        while keys[at] != 0 and keys[at] != key:
            at = (at + 1) & mask
        found[i] = offsets[at] if keys[at] != 0 else -1
