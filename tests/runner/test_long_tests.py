"""The list of tests that the default run omits."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.support.left_out import names, select_share
from tools.kafka import ROOT


def test_each_name_is_that_of_a_test() -> None:
    for file, file_names in groupby(names(), lambda name: name.partition("::")[0]):
        tree = ast.parse((ROOT / file).read_text())
        tests = {f"{file}::{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name.partition("[")[0] for name in file_names} <= tests


def test_names_are_sorted_and_unique() -> None:
    assert names() == sorted(set(names()))


def test_the_shares_of_a_file_are_all_its_long_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[Any] = [
        SimpleNamespace(path=Path(file), name=f"{file}{i}", get_closest_marker=(mark,).__contains__)
        for file, n in (("a", 23), ("b", 2))
        for i in range(n)
        for mark in ("long" if i % 5 else "brokers" if i % 2 else "spark",)
    ]

    def selected_names(share: str) -> set[str]:
        monkeypatch.setenv("KFMT_LONG_SHARE", share)
        config, selected = mock.Mock(), list(items)
        select_share(config, selected)
        deselected = [item for call in config.hook.mock_calls for item in call.kwargs["items"]]
        assert len(selected) + len(deselected) == len(items)
        return {item.name for item in selected}

    shares = [selected_names(f"{i}/3") for i in range(3)]
    short_names = set.intersection(*shares)
    assert short_names == {"a0", "a10", "a20", "b0"}
    assert selected_names("") == set.union(*shares) == {item.name for item in items}
    assert [len(share - short_names) for share in shares] == [7, 7, 7]
