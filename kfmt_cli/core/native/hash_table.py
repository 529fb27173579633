"""A compiled hash table from 64-bit hashes of keys to their latest offsets.

Ordinary Python that Cython also compiles, with bounds checks on.
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
    max_hashes: cython.longlong,
    n_used: cython.longlong[::1],
):
    """Store an offset for each hash, replacing earlier ones; returns the number of hashes stored.

    Stops when the table has `max_hashes` hashes. keys, offsets: the table, whose size is a power of
    two; a key of 0 is an empty slot, and at least one slot must stay empty. values: the offset of
    each hash. n_used: [the number of hashes in the table], updated.
    """
    mask: cython.Py_ssize_t = keys.shape[0] - 1
    slot: cython.Py_ssize_t
    i: cython.Py_ssize_t
    n: cython.longlong = n_used[0]
    key: cython.longlong
    for i in range(hashes.shape[0]):
        if n >= max_hashes:
            n_used[0] = n
            return i
        key = hashes[i]
        slot = key & mask
        while keys[slot] != 0 and keys[slot] != key:
            slot = (slot + 1) & mask
        if keys[slot] == 0:
            keys[slot] = key
            n += 1
        offsets[slot] = values[i]
    n_used[0] = n
    return hashes.shape[0]


def get(
    keys: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    hashes: cython.const[cython.longlong][::1],
    out: cython.longlong[::1],
):
    """Look up the offset of each hash; -1 in `out` for a hash that is not in the table."""
    mask: cython.Py_ssize_t = keys.shape[0] - 1
    slot: cython.Py_ssize_t
    i: cython.Py_ssize_t
    key: cython.longlong
    for i in range(hashes.shape[0]):
        key = hashes[i]
        slot = key & mask
        while keys[slot] != 0 and keys[slot] != key:
            slot = (slot + 1) & mask
        out[i] = offsets[slot] if keys[slot] != 0 else -1
