"""explain: the page of each kind of finding; docs/findings.md has the same."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from types import ModuleType

from kfmt_cli.checks.check import Scope
from kfmt_cli.checks.history import codes as of_history
from kfmt_cli.checks.registry import checks_of
from kfmt_cli.core.finding import Code, Severity
from kfmt_cli.errors import UsageError
from kfmt_cli.files import codes as of_logs
from kfmt_cli.files.kinds import codes as of_files
from kfmt_cli.render.finding import STYLES, consequences, wrapped
from kfmt_cli.render.style import Theme, count
from kfmt_cli.tasks.run import Run
from kfmt_cli.writers import codes as of_writers

MEANING = {
    Severity.ERROR: "bytes are lost, or a broker or its consumers trip over it; exit code 1",
    Severity.WARNING: "a broker lives with it, a person should know; exit code 1 with --strict",
    Severity.NOTE: "worth knowing, nothing to do",
}


def code_chapters() -> Iterator[tuple[str, list[Code]]]:
    """All kinds of findings, by what they are about."""
    yield "Logs", _codes(of_logs, scopes=(Scope.HEADERS, Scope.RECORDS))
    of_others = _codes(of_files, of_writers, scopes=(Scope.SEGMENT,))
    yield "Indexes, snapshots and checkpoints", of_others
    yield "Directories", _codes(scopes=(Scope.PARTITION, Scope.DIRECTORY))
    yield "Producers, transactions and leaders", _codes(of_history, scopes=())


def _codes(*modules: ModuleType, scopes: tuple[Scope, ...]) -> list[Code]:
    """The codes that modules declare and those of the checks of some scopes, by name."""
    found = {it.name: it for page in modules for it in vars(page).values() if isinstance(it, Code)}
    for scope in scopes:
        for check in checks_of(scope):
            found |= {it.name: it for it in check.codes}
    return [found[name] for name in sorted(found)]


def explain(run: Run, names: tuple[str, ...]) -> None:
    """The pages of some kinds of findings, or a list of all; raises UsageError."""
    sink = run.sink
    every = [(title, code) for title, codes in code_chapters() for code in codes]
    by_name = {code.name: (title, code) for title, code in every}
    for name in names:
        if name not in by_name:
            near = get_close_matches(name, by_name, 3, 0.5)
            words = f"there is {' and '.join(near)}" if near else "kfmt explain lists all"
            raise UsageError(f"no finding is named {name!r}; {words}")
    for title, code in map(by_name.__getitem__, names) if names else every:
        lines = (_page if names else _line)(code, sink.out.theme, sink.out.width)
        row: dict[str, object] = {
            "code": code.name,
            "severity": code.severity.value,
            "about": title,
            "meaning": code.meaning,
            "after_crash": code.after_crash,
            "after_clean_shutdown": code.after_clean_shutdown,
            "advice": code.advice,
        }
        sink.document("code", row, lines)
    if not names:
        sink.remark(f"{count(len(every), 'kind')} of findings; kfmt explain CODE has the page")
    sink.flush()


def _line(code: Code, theme: Theme, width: int | None) -> list[str]:
    """A line of the list."""
    room = max((width or 1 << 20) - 46, 20)
    words = textwrap.shorten(code.meaning, room, placeholder=" …")
    severity = theme.paint(STYLES[code.severity], f"{code.severity.value:<7}")
    return [f" {severity}  {code.name:<34} {words}\n"]


def _page(code: Code, theme: Theme, width: int | None) -> list[str]:
    """What is known of a kind of finding."""
    severity = theme.paint(STYLES[code.severity], code.severity.value)
    lines = [f"{theme.paint('bold', code.name)}   {severity}: {MEANING[code.severity]}\n"]
    for label, words in (("meaning", code.meaning), *consequences(code)):
        lines += [f"{it}\n" for it in wrapped(words, width, label, margin=2)]
    return lines
