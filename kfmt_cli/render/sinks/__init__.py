"""Output formats, one file each; `render/output_formats.py` lists them."""
