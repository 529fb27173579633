"""The anatomy of a batch, an entry or a small file: every field with its bytes and what it means.

For output that shows bytes, which are those of the Layouts' trees (`layout/tree.py`). Added is what
follows from where a field is: a timestamp out of a delta, whether a checksum is right. What
comes out of a compressed block is a `AnatomyPart` of its own, with its own first byte.
"""
