"""The list of tests that the default run leaves out."""

from __future__ import annotations

import ast
from itertools import groupby
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.support.left_out import keep_share, names
from tools.kafka import ROOT


def test_each_name_is_that_of_a_test() -> None:
    for file, its in groupby(names(), lambda name: name.partition("::")[0]):
        tree = ast.parse((ROOT / file).read_text())
        tests = {f"{file}::{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name.partition("[")[0] for name in its} <= tests


def test_they_are_in_order_and_once() -> None:
    assert names() == sorted(set(names()))


def test_the_shares_of_a_file_are_all_its_long_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    every: list[Any] = [
        SimpleNamespace(path=file, name=f"{file}{i}", get_closest_marker=(mark,).__contains__)
        for file, n in (("a", 23), ("b", 2))
        for i in range(n)
        for mark in ("long" if i % 5 else "brokers" if i % 2 else "spark",)
    ]

    def chosen(share: str) -> set[str]:
        monkeypatch.setenv("KFMT_LONG_SHARE", share)
        config, kept = mock.Mock(), list(every)
        keep_share(config, kept)
        dropped = [item for call in config.hook.mock_calls for item in call.kwargs["items"]]
        assert len(kept) + len(dropped) == len(every)
        return {item.name for item in kept}

    shares = [chosen(f"{i}/3") for i in range(3)]
    short = set.intersection(*shares)
    assert short == {"a0", "a10", "a20", "b0"}
    assert chosen("") == set.union(*shares) == {item.name for item in every}
    assert [len(share - short) for share in shares] == [8, 7, 6]
