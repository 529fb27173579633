"""Parts of files: how work is shared out, and how what was found in the parts is put together."""
