"""The page of what is supported names what pyproject.toml, the workflows and the code have."""

from __future__ import annotations

import re

import pytest

from kfmt_cli.broker.version import KAFKA_VERSIONS
from tools.kafka import ROOT

PAGE = (ROOT / "docs/supported.md").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()
FOR_DEVELOPERS = {"dev", "lint", "docs", "bench"}
_, _, REST = PROJECT.partition("[project.optional-dependencies]\n")
EXTRAS = set(re.findall(r"^(\w+) = \[", REST.partition("\n[")[0], re.MULTILINE))


def row(first: str) -> str:
    """The line of the page's table that begins with a cell."""
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    return line


@pytest.mark.parametrize("extra", sorted(EXTRAS - FOR_DEVELOPERS))
def test_each_extra_is_there_with_its_lower_bounds(extra: str) -> None:
    [requirements] = re.findall(rf"^{extra} = \[(.*)\]$", PROJECT, re.MULTILINE)
    named = re.findall(r'"([\w-]+)(?:\[[^]]*\])?>=([\d.]+)', requirements)
    assert len(named) == requirements.count(">=")
    for package, version in named:
        assert f"{package} {version}" in row(f"`{extra}`")


def test_the_versions_of_python_are_those_of_the_package_and_of_the_workflow() -> None:
    shown = re.findall(r"3\.\d+", row("CPython"))
    assert shown == re.findall(r"Python :: (3\.\d+)", PROJECT)
    assert f'requires-python = ">={shown[0]}"' in PROJECT
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    assert re.findall(r'"(3\.\d+)"', re.findall(r"python: \[.*\]", workflow)[0]) == shown


def test_the_versions_of_kafka_are_those_that_predictions_are_made_for() -> None:
    predictions = row("predictions of `check`, `report` and `index-check`")
    assert ", ".join(version.name for version in KAFKA_VERSIONS) in predictions
    assert all(version.observed_on in PAGE for version in KAFKA_VERSIONS)
