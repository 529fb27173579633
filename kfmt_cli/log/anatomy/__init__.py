"""The anatomy of a batch, an entry or a small file: every field with its bytes and its meaning.

For output that shows bytes, based on the trees of the Layouts (`layout/tree.py`). Adds meanings
that depend on the context: a timestamp from a delta, whether a checksum matches. A decompressed
block is an `AnatomyPart` of its own, with its own first byte.
"""
