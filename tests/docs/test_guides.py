"""Each command of each guide is run, in its order, and prints what the guide shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import warm
from tools.guides import (
    GUIDES,
    all_commands,
    blocks,
    commands,
    environment,
    guides,
    is_what,
    rewritten,
    run,
)

PARQUET = "parquet-duckdb-polars.md"
SQL = "ask-in-sql.md"
# Commands that need a broker, another program or the internet; only their syntax is checked.
NOT_RUN = {
    SQL: ["pip install"],
    "after-the-disaster.md": ["kfmt replay"],
    "batch-by-hand.md": ["kafka-dump-log.sh"],
    "consumer-stands-still.md": ["kafka-consumer-groups.sh", "kafka-transactions.sh"],
    "kubernetes.md": ["kubectl debug", "kubectl scale", "kubectl exec"],
    "group-offsets.md": ["--from-file", "--to-datetime"],
    "offset-out-of-range.md": ["kafka-consumer-groups.sh"],
    "one-page.md": ["pip install", "kfmt pipeline verify"],
    PARQUET: ["pip install"],
    "restore-a-topic.md": ["kcat -P"],
    "schemas.md": ["pip install", "protoc"],
    "segments-in-ci.md": ["pip install"],
}
each_guide = pytest.mark.parametrize("page", guides(), ids=lambda page: page.name)


@each_guide
def test_a_guide_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    if page.name == PARQUET:
        pytest.importorskip("duckdb")
        pytest.importorskip("polars")
    if page.name == SQL:
        pytest.importorskip("duckdb")
        pytest.importorskip("pyarrow")
    scratch = tmp_path / "guide"
    scratch.mkdir()
    text = page.read_text()
    kfmt, inherited = warm.server_for(environment(scratch)).command()
    outputs = run(text, scratch, kfmt, [inherited])
    for command, printed in zip(all_commands(text), outputs, strict=True):
        assert str(scratch) not in "".join(printed)
        assert is_what(command.shown, printed), (
            f"$ {command.text}\n" + "\n".join(printed) + "\npython -m tools.make_guides writes it"
        )


@each_guide
def test_what_a_guide_does_not_run_is_listed_and_is_bash(page: Path) -> None:
    shell_blocks = blocks(page.read_text(), "sh")
    expected = NOT_RUN.get(page.name, [])
    assert len(shell_blocks) == len(expected)
    for block, text in zip(shell_blocks, expected, strict=True):
        assert text in block
        assert "\n$ " not in f"\n{block}"
        result = subprocess.run(["bash", "-n", "-c", block], capture_output=True, check=False)
        assert (result.returncode, result.stderr) == (0, b"")


@each_guide
def test_a_guide_has_a_situation_steps_and_a_limit(page: Path) -> None:
    text = page.read_text()
    assert 40 <= len(text.splitlines()) <= 110
    assert len(all_commands(text)) >= 4
    *steps, last = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert [step.split(".")[0] for step in steps] == [str(i + 1) for i in range(len(steps))]
    assert last == "What kfmt cannot do here"


@each_guide
def test_every_block_of_a_guide_is_of_a_known_language(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text(), re.MULTILINE)
    assert set(fences[::2]) <= {"console", "sh", "yaml", "python"}
    assert set(fences[1::2]) == {""}


def test_the_list_has_every_guide() -> None:
    linked = re.findall(r"\]\(([\w-]+\.md)\)", (GUIDES / "README.md").read_text())
    assert sorted(linked) == [page.name for page in guides()]


# The comparison of the output.


@pytest.mark.parametrize(
    ("shown", "is_match"),
    [
        (["a", "b", "c"], True),
        (["a", "…", "c"], True),
        (["…"], True),
        (["a", "…"], True),
        (["…", "b", "…", "c"], True),
        (["a", "b"], False),
        (["a", "B", "c"], False),
        (["…", "d", "…"], False),
        (["…", "c", "…", "b", "…"], False),
        (["a", "b ", "c"], False),
        ([], False),
    ],
)
def test_a_line_that_was_not_printed_is_seen(shown: list[str], is_match: bool) -> None:
    assert is_what(shown, ["a", "b", "c"]) is is_match


def test_a_changed_guide_fails_and_is_written_anew(tmp_path: Path) -> None:
    page = (
        "```console\n$ printf 'a\\nb\\nc\\nd\\n'\nx\n…\nd\n$ false\n$ echo $? \\\n  more\n0\n```\n"
    )
    (shown, _, code), printed = all_commands(page), run(page, tmp_path)
    assert printed == [["a", "b", "c", "d"], [], ["1 more"]]
    assert not is_what(shown.shown, printed[0])
    assert not is_what(code.shown, printed[2])
    rewritten_page = rewritten(page, printed)
    assert rewritten_page == page.replace("x\n…", "a\n…").replace("\n0\n", "\n1 more\n")
    assert rewritten(rewritten_page, printed) == rewritten_page


def test_a_block_that_bash_does_not_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bash ended after 0 commands"):
        run("```console\n$ echo 'never closed\n```\n", tmp_path)
    with pytest.raises(ValueError, match="begins with a command"):
        list(commands("output\n$ echo\n"))
