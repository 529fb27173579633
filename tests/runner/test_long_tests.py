"""The list of tests that the default run leaves out."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from itertools import groupby

from tests.support.left_out import names
from tools.kafka import ROOT


def test_each_name_is_that_of_a_test() -> None:
    for file, its in groupby(names(), lambda name: name.partition("::")[0]):
        tree = ast.parse((ROOT / file).read_text())
        tests = {f"{file}::{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name.partition("[")[0] for name in its} <= tests


def test_they_are_in_order_and_once() -> None:
    assert names() == sorted(set(names()))


def test_the_shares_of_a_file_are_all_its_long_tests() -> None:
    file = "tests/interop/test_retention.py"

    def chosen(share: str) -> set[str]:
        run = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-n0", "-m", ""]
        made = subprocess.run(
            [*run, file, "-o", "addopts="],
            env=os.environ | {"KFMT_LONG_SHARE": share},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return {line for line in made.stdout.splitlines() if line.startswith(file)}

    every = chosen("")
    shares = [chosen(f"{i}/3") for i in range(3)]
    short = set.intersection(*shares)
    assert set.union(*shares) == every
    assert sum(len(share - short) for share in shares) == len(every - short) > 20
    assert short
