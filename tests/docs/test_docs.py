"""What the docs say is what the code does."""

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
    page = " ".join((ROOT / "docs" / "commands.md").read_text().split())
    other = []
    for name in (None, *MODULE_BY_COMMAND):
        shown = kfmt(*([name] if name else []), "--help", COLUMNS="100").out.split()
        if " ".join(["```", *shown, "```"]) not in page:
            other.append(name)
    assert not other, "python -m tools.make_docs makes it anew"


@pytest.mark.parametrize("name", man_pages())
def test_man_pages_are_set_without_a_warning(name: str) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    page = ROOT / "docs/man" / name
    command = ["groff", "-man", "-ww", "-Tutf8", "-P-cbu", str(page)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stderr == ""
    assert "EXIT STATUS" in done.stdout


@pytest.mark.parametrize("name", MODULE_BY_COMMAND)
def test_each_command_has_help_with_examples_that_work(name: str, tmp_path: Path) -> None:
    every = examples(name, tmp_path)
    assert len(every) >= 2
    if name == "pipeline":
        return  # tests/spark/test_jobs.py runs them
    for example in every:
        ran = kfmt(*example)
        words = " ".join(example)
        is_answer = name == "sql" and "from findings" in words  # the damage is what is asked for
        assert ran.code == (1 if "damaged_segments" in words and not is_answer else 0), example
        assert ran.out


def examples(name: str, to: Path) -> list[list[str]]:
    """The words of each example of a command's help, after `kfmt`; DST is a place of its own."""
    done = kfmt(name, "--help")
    assert done.code == 0
    found = re.findall(r"^ +kfmt (.*)$", done.out.split("Examples:")[1], re.MULTILINE)
    return [
        [re.sub("^DST(?=/|$)", str(to / f"dst-{number}"), text) for text in shlex.split(example)]
        for number, example in enumerate(found)
    ]


@pytest.mark.parametrize(("page", "number"), [("README.md", 3), ("docs/tour.md", 5)])
def test_pages_show_real_output(page: str, number: int) -> None:
    every = all_commands((ROOT / page).read_text())
    assert len(every) == number
    for command in every:
        assert command.text.startswith("kfmt ")
        done = kfmt(*shlex.split(command.text)[1:])
        assert done.out + done.err == "".join(f"{line}\n" for line in command.shown), command.text


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / Path(target)).exists(), f"{page.name}: {target}"


def test_every_exit_code_is_in_the_help() -> None:
    assert "0 clean; 1 findings of severity error" in " ".join(kfmt("--help").out.split())
