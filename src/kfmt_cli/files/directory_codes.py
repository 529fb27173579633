"""Every kind of finding in a directory: what is there, is missing, or does not fit together."""
