"""The list of tests that the default run leaves out."""

from __future__ import annotations

import ast
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
