"""Inputs that the coverage-guided fuzzer found (`tools/fuzz_coverage.py`), with both kernels."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.fuzz_inputs import CORPUS
from tests.support.fuzz_targets import TARGETS
from tests.support.interpreted import copy_sources
from tools.fuzz_coverage import Reader, answer

MAX_INPUT_SECONDS = 5


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("interpreted")
    copy_sources(root)
    return root


@pytest.mark.parametrize("target", TARGETS)
def test_both_kernels_say_the_same_of_each_input(target: str, interpreted: Path) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert inputs
    reader = Reader(interpreted, target)
    try:
        for path in inputs:
            data = path.read_bytes()
            start_seconds = time.process_time()
            expected = answer(target, data)  # raises what would end kfmt
            assert time.process_time() - start_seconds < MAX_INPUT_SECONDS, path
            assert reader.answer(data) == expected, path
    finally:
        reader.close()


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(sizes) <= 1 << 20
    assert len(sizes) <= 600
