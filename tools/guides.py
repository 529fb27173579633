"""The console blocks of Markdown pages: commands after `$ `, and their output.

A guide is one session of bash in a directory that contains only the samples. Its blocks run in
order: every command of a `console` block; a `python` block whose first line names a file (`#
report.py`) is saved under that name. In the output of a page, a line `…` stands for any number of
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
SAMPLE_DIRECTORIES = ("sample_segments", "damaged_segments", "tests/kept/clusters")
OMITTED = "…"
TIMEOUT = 300  # seconds for a whole guide
KFMT = (sys.executable, "-m", "kfmt_cli")

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"# ([\w.-]+)\n")
# bash prints this line after each command; no command prints it.
_END = "\x1e"
_MARK = f"mark() {{ local code=$?; printf '\\n{_END}\\n'; return $code; }}\n"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and the lines below it on the page."""

    text: str
    shown: tuple[str, ...]


def guides() -> list[Path]:
    """Every guide; README.md is the list of guides."""
    return sorted(path for path in GUIDES.glob("*.md") if path.name != "README.md")


def blocks(text: str, language: str) -> list[str]:
    """The contents of the fenced blocks of a language."""
    return [match[2] for match in BLOCK.finditer(text) if match[1] == language]


def commands(block: str) -> Iterator[Command]:
    """The commands of a console block; a line that ends in a backslash continues on the next."""
    input_lines: list[str] = []
    output: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if input_lines:
                yield Command("\n".join(input_lines), tuple(output))
            input_lines, output = [line[2:]], []
        elif not input_lines:
            raise ValueError(f"a console block begins with a command, not with {line!r}")
        elif input_lines[-1].endswith("\\") and not output:
            input_lines.append(line)
        else:
            output.append(line)
    if input_lines:
        yield Command("\n".join(input_lines), tuple(output))


def all_commands(text: str) -> list[Command]:
    """The commands of all console blocks of a page."""
    return [command for block in blocks(text, "console") for command in commands(block)]


# The size of an exported file, in which the paths of its inputs are.
_EXPORTED_SIZE = re.compile(r"^(wrote .*, )[0-9.]+ kB$", re.MULTILINE)


def is_what(page_lines: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the lines of a page match the output, apart from omitted lines and the sizes of
    exported files."""
    page, output = (
        _EXPORTED_SIZE.sub(r"\1", "".join(f"{line}\n" for line in lines))
        for lines in (page_lines, printed)
    )
    pattern = "".join(
        r"(?:.*\n)*" if line == OMITTED else re.escape(line) + r"\n" for line in page.splitlines()
    )
    return re.fullmatch(pattern, output) is not None


def run(
    text: str, scratch: Path, kfmt: Sequence[str] = KFMT, inherited: Sequence[int] = ()
) -> list[list[str]]:
    """The lines that each command of a guide prints to both streams, run in `scratch`.

    kfmt: the command to run as `kfmt`; inherited: its file descriptors. Raises ValueError if bash
    does not reach the end, for example because of an unclosed quote.
    """
    for name in SAMPLE_DIRECTORIES:
        shutil.copytree(ROOT / name, scratch / name)
    bin_directory = scratch.with_name(f"{scratch.name}-bin")
    bin_directory.mkdir()
    for name, command in (
        ("kfmt", kfmt),
        ("python3", [sys.executable]),
    ):
        (bin_directory / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (bin_directory / name).chmod(0o755)
    result = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", _script(text)],
        cwd=scratch,
        env=environment(bin_directory),
        pass_fds=inherited,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT,
        check=False,
    )
    *printed, remaining = result.stdout.decode().split(f"\n{_END}\n")
    if len(printed) != len(all_commands(text)):
        raise ValueError(f"bash ended after {len(printed)} commands: {remaining}")
    return [output.splitlines() for output in printed]


def rewritten(text: str, printed: Sequence[Sequence[str]]) -> str:
    """The page with the new output; around `…`, as many lines as before are retained."""
    outputs = iter(printed)

    def rewrite_block(match: re.Match[str]) -> str:
        if match[1] != "console":
            return match[0]
        lines = []
        for command in commands(match[2]):
            lines += [f"$ {command.text}", *_shortened(command.shown, next(outputs))]
        return "\n".join(["```console", *lines, "```"])

    return BLOCK.sub(rewrite_block, text)


def _shortened(page_lines: Sequence[str], printed: Sequence[str]) -> Sequence[str]:
    """The lines of the output for the page, shortened like the previous lines."""
    if OMITTED not in page_lines or is_what(page_lines, printed):
        return page_lines if OMITTED in page_lines else printed
    runs = [
        list(lines) for is_omitted, lines in groupby(page_lines, OMITTED.__eq__) if not is_omitted
    ]
    first = 0 if page_lines[0] == OMITTED else len(runs[0])
    last = 0 if page_lines[-1] == OMITTED else len(runs[-1])
    return [*printed[:first], OMITTED, *printed[len(printed) - last :]]


def _script(text: str) -> str:
    lines = [_MARK]
    for match in BLOCK.finditer(text):
        if match[1] == "console":
            lines += [f"{command.text}\nmark\n" for command in commands(match[2])]
        elif match[1] == "python" and (file_name := _FILE_NAME.match(match[2])):
            lines.append(
                f"cat >{file_name[1]} <<'END OF {file_name[1]}'\n{match[2]}END OF {file_name[1]}\n"
            )
    return "".join(lines)


def environment(bin_directory: Path) -> dict[str, str]:
    """The environment of a guide's commands. bin_directory: the first directory of PATH."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")
    }
    paths = {
        "PATH": f"{bin_directory}{os.pathsep}{inherited.get('PATH', '')}",
        "PYTHONPATH": str(ROOT),
    }
    return {**inherited, **paths, "COLUMNS": "100", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
