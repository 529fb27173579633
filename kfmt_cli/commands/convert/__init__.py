"""convert-v0-to-v2: rewrites old message formats as magic 2."""
