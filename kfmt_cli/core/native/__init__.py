"""The loops that Cython compiles: decoding, encoding, searching, writing text."""
