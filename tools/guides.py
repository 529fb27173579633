"""The console blocks of Markdown pages: commands after `$ `, and what they print.

A guide is one session of bash in a directory that holds nothing but the samples. Its blocks are run
in their order: every command of a `console` block; a `python` block whose first line names a file
(`# report.py`) is saved under that name. In what is shown, a line `…` stands for any number of
lines.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tools.kafka import ROOT

GUIDES = ROOT / "docs/guides"
SAMPLE_FOLDERS = ("sample_segments", "damaged_segments", "tests/kept/clusters")
LEFT_OUT = "…"
TIMEOUT = 300  # seconds for a whole guide
KFMT = (sys.executable, "-m", "kfmt_cli")

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"# ([\w.-]+)\n")
# What bash prints after each command: a line that no command prints.
_END = "\x1e"
_MARK = f"mark() {{ local code=$?; printf '\\n{_END}\\n'; return $code; }}\n"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block and the lines that the page shows below it."""

    text: str
    shown: tuple[str, ...]


def guides() -> list[Path]:
    """Every guide; README.md is their list."""
    return sorted(path for path in GUIDES.glob("*.md") if path.name != "README.md")


def blocks(text: str, language: str) -> list[str]:
    """What is in the fenced blocks of a language."""
    return [found[2] for found in BLOCK.finditer(text) if found[1] == language]


def commands(block: str) -> Iterator[Command]:
    """The commands of a console block; a line that ends in a backslash continues on the next."""
    typed: list[str] = []
    shown: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if typed:
                yield Command("\n".join(typed), tuple(shown))
            typed, shown = [line[2:]], []
        elif not typed:
            raise ValueError(f"a console block begins with a command, not with {line!r}")
        elif typed[-1].endswith("\\") and not shown:
            typed.append(line)
        else:
            shown.append(line)
    if typed:
        yield Command("\n".join(typed), tuple(shown))


def all_commands(text: str) -> list[Command]:
    """The commands of all console blocks of a page."""
    return [command for block in blocks(text, "console") for command in commands(block)]


def is_what(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether a page shows what was printed, apart from lines that it leaves out."""
    pattern = "".join(
        r"(?:.*\n)*" if line == LEFT_OUT else re.escape(line) + r"\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def run(
    text: str, scratch: Path, kfmt: Sequence[str] = KFMT, inherited: Sequence[int] = ()
) -> list[list[str]]:
    """The lines that each command of a guide prints, both streams, in `scratch`.

    kfmt: the command of that name; inherited: descriptors that it takes. Raises ValueError if bash
    did not come to the end, as with a quote that is not closed.
    """
    for name in SAMPLE_FOLDERS:
        shutil.copytree(ROOT / name, scratch / name)
    tools = scratch.with_name(f"{scratch.name}-bin")
    tools.mkdir()
    for name, words in (
        ("kfmt", kfmt),
        ("python3", [sys.executable]),
    ):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", _script(text)],
        cwd=scratch,
        env=environment(tools),
        pass_fds=inherited,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT,
        check=False,
    )
    *printed, rest = done.stdout.decode().split(f"\n{_END}\n")
    if len(printed) != len(all_commands(text)):
        raise ValueError(f"bash ended after {len(printed)} commands: {rest}")
    return [one.splitlines() for one in printed]


def rewritten(text: str, printed: Sequence[Sequence[str]]) -> str:
    """The page with what was printed; where it leaves out lines, as many are kept around `…`."""
    outputs = iter(printed)

    def block(found: re.Match[str]) -> str:
        if found[1] != "console":
            return found[0]
        lines = []
        for command in commands(found[2]):
            lines += [f"$ {command.text}", *_shortened(command.shown, next(outputs))]
        return "\n".join(["```console", *lines, "```"])

    return BLOCK.sub(block, text)


def _shortened(shown: Sequence[str], printed: Sequence[str]) -> Sequence[str]:
    """What to show of what was printed, given what was shown."""
    if LEFT_OUT not in shown or is_what(shown, printed):
        return shown if LEFT_OUT in shown else printed
    runs = [list(run) for left_out, run in groupby(shown, LEFT_OUT.__eq__) if not left_out]
    first = 0 if shown[0] == LEFT_OUT else len(runs[0])
    last = 0 if shown[-1] == LEFT_OUT else len(runs[-1])
    return [*printed[:first], LEFT_OUT, *printed[len(printed) - last :]]


def _script(text: str) -> str:
    parts = [_MARK]
    for found in BLOCK.finditer(text):
        if found[1] == "console":
            parts += [f"{command.text}\nmark\n" for command in commands(found[2])]
        elif found[1] == "python" and (named := _FILE_NAME.match(found[2])):
            parts.append(f"cat >{named[1]} <<'END OF {named[1]}'\n{found[2]}END OF {named[1]}\n")
    return "".join(parts)


def environment(tools: Path) -> dict[str, str]:
    """What commands of a guide run with. tools: the folder of those that it calls by name."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    places = {"PATH": f"{tools}{os.pathsep}{kept.get('PATH', '')}", "PYTHONPATH": str(ROOT)}
    return {**kept, **places, "COLUMNS": "100", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
