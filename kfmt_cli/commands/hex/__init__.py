"""hex: the bytes of a batch, an entry or a small file, each next to its field."""
