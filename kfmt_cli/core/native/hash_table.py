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
    max_hashes: cython.longlong,
    n_used: cython.longlong[::1],
):
    """Give each hash its offset, a later one in the place of an earlier one.

    keys, offsets: the table, its size a power of two, at least one key 0. max_hashes: hashes that
    it may have at most. counts[0]: those that it has, updated. How many hashes were taken: fewer
    where the table has all that it may have.
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
    """The offset of each hash, -1 where the table has none."""
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
