"""The list of tests that the default run leaves out."""

from __future__ import annotations

import ast

from tests.support.left_out import names
from tools.kafka import ROOT


def test_each_name_is_that_of_a_test() -> None:
    for name in names():
        file, _, test = name.partition("[")[0].partition("::")
        tree = ast.parse((ROOT / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_they_are_in_order_and_once() -> None:
    assert names() == sorted(set(names()))
