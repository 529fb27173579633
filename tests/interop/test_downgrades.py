"""A node of another version than its metadata log: `check` predicts which versions start."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kfmt_cli.broker.version import KAFKA_VERSIONS
from tests.support.broken_partitions import ORDERS, sample
from tests.support.samples import kfmt
from tools import kafka
from tools.directories import Seen, run_on, start_all

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
    pytest.mark.fuzz,
]
RELEASES = {version.name: version.observed_on for version in KAFKA_VERSIONS}


@pytest.fixture(scope="module", params=list(RELEASES))
def disks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of a node that a version has formatted, started and stopped."""
    directory = tmp_path_factory.mktemp(request.param)
    run_on({"victim": sample(ORDERS)}, directory, version=RELEASES[request.param])
    return directory


@cache
def observed(disks: Path, version: str) -> Seen:
    """The start of a version on these disks."""
    [seen] = start_all(disks, [lambda _: None], ("victim",), RELEASES[version])
    return seen


@pytest.mark.parametrize("version", list(RELEASES))
def test_versions_start_as_predicted(disks: Path, version: str) -> None:
    result = kfmt("check", disks / "one", "--kafka-version", version, "--json")
    reasons = [row["reason"] or "" for row in result.of("broker_start") if not row["starts"]]
    seen = observed(disks, version)
    assert seen.up == (not reasons)
    sentences = [reason.partition("does not support: ")[2] for reason in reasons]
    for sentence in sentences:
        # Some stop earlier, at a record of a later version.
        if sentence.startswith("No MetadataVersion") and "No MetadataVersion" in str(seen.errors):
            assert sentence.partition(". ")[0] in str(seen.errors)
