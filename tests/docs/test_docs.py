"""The docs agree with the code."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from kfmt_cli.cli import MODULE_BY_COMMAND
from tests.support.samples import kfmt
from tools.guides import all_commands
from tools.kafka import ROOT
from tools.man import man_pages


def test_the_page_of_commands_has_the_help_that_kfmt_shows() -> None:
    """Lines may break elsewhere."""
    page = "".join((ROOT / "docs" / "commands.md").read_text().split())
    outdated = []
    for name in (None, *MODULE_BY_COMMAND):
        help_words = kfmt(*([name] if name else []), "--help", COLUMNS="100").out.split()
        if "".join(["```", *help_words, "```"]) not in page:
            outdated.append(name)
    assert not outdated, "python -m tools.make_docs makes it anew"


@pytest.mark.parametrize("name", man_pages())
def test_man_pages_are_set_without_a_warning(name: str) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    page = ROOT / "docs/man" / name
    command = ["groff", "-man", "-ww", "-Tutf8", "-P-cbu", str(page)]
    result = subprocess.run(command, capture_output=True, check=True, text=True)
    assert result.stderr == ""
    assert "EXIT STATUS" in result.stdout


@pytest.mark.parametrize("name", MODULE_BY_COMMAND)
def test_each_command_has_help_with_examples_that_work(name: str, tmp_path: Path) -> None:
    all_examples = examples(name, tmp_path)
    assert len(all_examples) >= 2
    if name == "pipeline":
        return  # tests/spark/test_jobs.py runs them
    for example in all_examples:
        example_result = kfmt(*example)
        line = " ".join(example)
        is_answer = name == "sql" and "from findings" in line  # the query asks for damage
        assert example_result.code == (1 if "damaged_segments" in line and not is_answer else 0), (
            example
        )
        assert example_result.out


def examples(name: str, directory: Path) -> list[list[str]]:
    """The arguments of each example of a command's help; each DST is a new directory."""
    result = kfmt(name, "--help")
    assert result.code == 0
    lines = re.findall(r"^ +kfmt (.*)$", result.out.split("Examples:")[1], re.MULTILINE)
    return [
        [re.sub("^DST(?=/|$)", str(directory / f"dst-{i}"), text) for text in shlex.split(example)]
        for i, example in enumerate(lines)
    ]


@pytest.mark.parametrize(("page", "n_commands"), [("README.md", 3), ("docs/tour.md", 5)])
def test_pages_show_real_output(page: str, n_commands: int) -> None:
    page_commands = all_commands((ROOT / page).read_text())
    assert len(page_commands) == n_commands
    for command in page_commands:
        assert command.text.startswith("kfmt ")
        result = kfmt(*shlex.split(command.text)[1:])
        assert result.out + result.err == "".join(f"{line}\n" for line in command.shown), (
            command.text
        )


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / Path(target)).exists(), f"{page.name}: {target}"


def test_every_exit_code_is_in_the_help() -> None:
    assert "0 clean; 1 findings of severity error" in " ".join(kfmt("--help").out.split())
