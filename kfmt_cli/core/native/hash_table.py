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
    new_offsets: cython.const[cython.longlong][::1],
    max_hashes: cython.longlong,
    n_used: cython.longlong[::1],
):
    """Store an offset for each hash, replacing earlier ones; returns the number of hashes stored.

    Stops when the table has `max_hashes` hashes. keys, offsets: the table, whose size is a power of
    two; a key of 0 is an empty slot, and at least one slot must stay empty. new_offsets: the offset
    of each hash. n_used: [the number of hashes in the table], updated.
    """
    slot_mask: cython.Py_ssize_t = keys.shape[0] - 1
    slot: cython.Py_ssize_t
    i: cython.Py_ssize_t
    n_hashes: cython.longlong = n_used[0]
    key_hash: cython.longlong
    for i in range(hashes.shape[0]):
        if n_hashes >= max_hashes:
            n_used[0] = n_hashes
            return i
        key_hash = hashes[i]
        slot = key_hash & slot_mask
        while keys[slot] != 0 and keys[slot] != key_hash:
            slot = (slot + 1) & slot_mask
        if keys[slot] == 0:
            keys[slot] = key_hash
            n_hashes += 1
        offsets[slot] = new_offsets[i]
    n_used[0] = n_hashes
    return hashes.shape[0]


def get(
    keys: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.longlong][::1],
    hashes: cython.const[cython.longlong][::1],
    offset_by_row: cython.longlong[::1],
):
    """Look up the offset of each hash; -1 in `offset_by_row` for a hash that is not in the
    table."""
    slot_mask: cython.Py_ssize_t = keys.shape[0] - 1
    slot: cython.Py_ssize_t
    i: cython.Py_ssize_t
    key_hash: cython.longlong
    for i in range(hashes.shape[0]):
        key_hash = hashes[i]
        slot = key_hash & slot_mask
        while keys[slot] != 0 and keys[slot] != key_hash:
            slot = (slot + 1) & slot_mask
        offset_by_row[i] = offsets[slot] if keys[slot] != 0 else -1
