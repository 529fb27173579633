"""The Markdown pages of this package, whose tables the program reads."""

from __future__ import annotations

import os
import sys


def read_page(module_name: str, file_name: str) -> str:
    """The text of a file next to a module of this package, which may be in a zip archive, as on
    Spark's workers."""
    module = sys.modules[module_name]
    path = os.path.join(os.path.dirname(module.__file__ or ""), file_name)  # noqa: PTH118, PTH120
    assert module.__spec__ is not None
    text: bytes = module.__spec__.loader.get_data(path)  # type: ignore[union-attr]
    return text.decode()
