"""The page of supported versions agrees with pyproject.toml, the workflows and the code."""

from __future__ import annotations

import re

import pytest

from kfmt_cli.broker.version import KAFKA_VERSIONS
from tools.kafka import ROOT

PAGE = (ROOT / "docs/supported.md").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()
DEVELOPER_EXTRAS = {"dev", "lint", "docs", "bench"}
_, _, EXTRAS_TEXT = PROJECT.partition("[project.optional-dependencies]\n")
EXTRAS = set(re.findall(r"^(\w+) = \[", EXTRAS_TEXT.partition("\n[")[0], re.MULTILINE))


def row(first_cell: str) -> str:
    """The line of the page's table that begins with a cell."""
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {first_cell} |")]
    return line


@pytest.mark.parametrize("extra", sorted(EXTRAS - DEVELOPER_EXTRAS))
def test_each_extra_is_there_with_its_lower_bounds(extra: str) -> None:
    [requirements] = re.findall(rf"^{extra} = \[(.*)\]$", PROJECT, re.MULTILINE)
    lower_bounds = re.findall(r'"([\w-]+)(?:\[[^]]*\])?>=([\d.]+)', requirements)
    assert len(lower_bounds) == requirements.count(">=")
    for package, version in lower_bounds:
        assert f"{package} {version}" in row(f"`{extra}`")


def test_the_versions_of_python_are_those_of_the_package_and_of_the_workflow() -> None:
    versions = re.findall(r"3\.\d+", row("CPython"))
    assert versions == re.findall(r"Python :: (3\.\d+)", PROJECT)
    assert f'requires-python = ">={versions[0]}"' in PROJECT
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    assert re.findall(r'"(3\.\d+)"', re.findall(r"python: \[.*\]", workflow)[0]) == versions


def test_the_versions_of_kafka_are_those_that_predictions_are_made_for() -> None:
    predictions = row("predictions of `check`, `report` and `index-check`")
    assert ", ".join(version.name for version in KAFKA_VERSIONS) in predictions
    assert all(version.observed_on in PAGE for version in KAFKA_VERSIONS)
