"""The package without compiled modules, so that Python interprets its kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.kafka import ROOT


def copy_sources(directory: Path) -> None:
    """Copy the package to a directory for PYTHONPATH, without its compiled modules; the tests and
    tools are linked."""
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "kfmt_cli", directory / "kfmt_cli", ignore=ignore)
    for name in ("tests", "tools"):
        (directory / name).symlink_to(ROOT / name)
