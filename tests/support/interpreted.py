"""The package with its sources only, whose kernel Python interprets."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.kafka import ROOT


def copy_sources(home: Path) -> None:
    """Copy the package to a directory for PYTHONPATH, without its compiled modules; the tests and
    tools are linked."""
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "kfmt_cli", home / "kfmt_cli", ignore=ignore)
    for name in ("tests", "tools"):
        (home / name).symlink_to(ROOT / name)
