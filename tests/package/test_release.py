"""What a package index gets: a README that works there, and a complete source distribution."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_binary_file
from pathlib import Path

import pytest

from kfmt_cli import __version__
from tools.kafka import ROOT
from tools.publish import publish, with_absolute_links, with_urls

ADDRESS = "https://example.org/owner/kfmt"


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution of a published copy of the tracked files."""
    directory = tmp_path_factory.mktemp("release")
    clone = directory / "clone"
    for path in tracked_files():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, clone / path, follow_symlinks=False)
    publish(ADDRESS, clone)
    script = "from setuptools.build_meta import build_sdist; import sys; build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", script, str(directory)],
        cwd=clone,
        capture_output=True,
        check=True,
        timeout=300,
    )
    [archive] = directory.glob("kfmt_cli-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    return directory / archive.name.removesuffix(".tar.gz")


def tracked_files() -> list[str]:
    """The tracked files of the clone; without git, those that the source distribution lists."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z"]
        output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        return [path for path in output.decode().split("\0") if path and (ROOT / path).exists()]
    return (ROOT / "kfmt_cli.egg-info" / "SOURCES.txt").read_text().splitlines()


def test_the_source_distribution_has_every_file(source_distribution: Path) -> None:
    missing = [path for path in tracked_files() if not (source_distribution / path).exists()]
    assert missing == []
    for path in ("kfmt_cli/core/native/kernel.py", "sample_segments", "tests/long_tests.txt"):
        assert (source_distribution / path).exists()
    assert not list(source_distribution.rglob("*.so"))
    assert not list(source_distribution.rglob("__pycache__"))


def test_the_metadata_has_addresses_and_a_readme_without_relative_links(
    source_distribution: Path,
) -> None:
    with (source_distribution / "PKG-INFO").open("rb") as file:
        metadata = message_from_binary_file(file)
    assert metadata["Version"] == __version__
    assert metadata["Description-Content-Type"] == "text/markdown"
    urls = dict(text.split(", ") for text in metadata.get_all("Project-URL") or [])
    assert urls["Source"] == ADDRESS
    assert urls["Changelog"] == f"{ADDRESS}/blob/v{__version__}/CHANGELOG.md"
    targets = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert len(targets) > 20
    for target in targets:
        assert target.startswith(f"{ADDRESS}/")
        kind, tag, path = target.removeprefix(f"{ADDRESS}/").split("/", 2)
        assert kind == ("raw" if path.endswith((".svg", ".png")) else "blob")
        assert tag == f"v{__version__}"
        assert (ROOT / path.partition("#")[0]).exists(), target


def test_links_elsewhere_and_to_headings_stay(tmp_path: Path) -> None:
    text = "[a](https://kafka.apache.org) [b](#more) ![c](p.svg) [d](q.md#e)"
    (tmp_path / "p.svg").touch()
    (tmp_path / "q.md").touch()
    assert with_absolute_links(text, ADDRESS, "v2", tmp_path) == (
        f"[a](https://kafka.apache.org) [b](#more) ![c]({ADDRESS}/raw/v2/p.svg) "
        f"[d]({ADDRESS}/blob/v2/q.md#e)"
    )


def test_what_cannot_be_published_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"README.md: gone.md: no such file"):
        with_absolute_links("[a](gone.md)", ADDRESS, "v2", tmp_path)
    with pytest.raises(SystemExit, match="not an https address"):
        publish("git@example.org:owner/kfmt", tmp_path)
    published = with_urls((ROOT / "pyproject.toml").read_text(), ADDRESS, "v2")
    with pytest.raises(SystemExit, match=r"it has \[project.urls\]"):
        with_urls(published, ADDRESS, "v2")
