"""Output formats, one file each; `render/formats.py` lists them."""
