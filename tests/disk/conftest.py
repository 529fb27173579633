"""Buckets of tiered storage that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.tiered import KEPT


@pytest.fixture
def buckets(tmp_path: Path) -> Path:
    for name in ("plain", "zstd", "encrypted"):
        shutil.copytree(KEPT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def plain_bucket(tmp_path: Path) -> Path:
    shutil.copytree(KEPT / "plain", tmp_path / "plain")
    return tmp_path
