"""The anatomy of a batch, an entry or a small file: every field with its bytes and what it means.

For output that shows bytes. The bytes are those of the Layouts' trees (`core/tree.py`); here it is
added what follows from a field where it stands: a timestamp out of a delta, whether a checksum is
right. What comes out of a compressed block is a `Part` of its own, with its own first byte.
"""
