"""explain: the pages on findings and mechanisms, as in docs/."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.explain.options import ExplainOptions
from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES
from kfmt_cli.commands.explain.pages.page import PageSection, PageSpec, load_page_facts
from kfmt_cli.core.integers import parse_int
from kfmt_cli.errors import UsageError, unknown_name_question
from kfmt_cli.findings.codes import CODES_BY_SUBJECT
from kfmt_cli.findings.finding import FindingCode, Severity
from kfmt_cli.options.parameter_types import parse_input_path
from kfmt_cli.render.finding import STYLE_BY_SEVERITY, wrap_labelled_text
from kfmt_cli.render.style import Theme, escape_unprintable, format_count
from kfmt_cli.rows.documents import CODE_ROW, EXPLAIN_PAGE_ROW, WHEEL_STEP_ROW
from kfmt_cli.rows.types.finding_row import finding_code_members

MEANING_BY_SEVERITY = {
    Severity.ERROR: "bytes are lost, or a broker or its consumers fail on it; exit code 1",
    Severity.WARNING: "a broker tolerates it, but you should know; exit code 1 with --strict",
    Severity.NOTE: "for information, no action needed",
}


@dataclass(slots=True)
class ExplainCommand:
    """One call of `explain`."""

    run: CommandRun
    options: ExplainOptions
    _path: str | None = None
    """A partition to illustrate the pages with; None for a sample."""
    _wheel_settings: tuple[int, int, tuple[int, ...], int | None] = (1, 20, (), None)
    """Tick, buckets, timers and time of the timing wheel."""

    def execute(self) -> None:
        """Show the pages of some findings or mechanisms, or list all; raises UsageError."""
        names, sink = self.options.names, self.run.sink
        if (
            names
            and names[-1] not in EXPLAIN_PAGES
            and ("/" in names[-1] or Path(names[-1]).exists())
        ):
            path, names = names[-1], names[:-1]
            if not names:
                raise UsageError(f"{path} is a path; name the topic to explain with it")
            self._path = parse_input_path(path)
        self._wheel_settings = _parse_wheel_settings(self.options)
        titled_codes = [
            (title, code) for title, codes in CODES_BY_SUBJECT.items() for code in codes
        ]
        titled_code_by_name = {code.name: (title, code) for title, code in titled_codes}
        names = tuple(map(str.lower, names))
        for name in names:
            if name not in titled_code_by_name and name not in EXPLAIN_PAGES:
                known_names = [*titled_code_by_name, *EXPLAIN_PAGES]
                question = unknown_name_question(
                    name, known_names, "; run kfmt explain to list all"
                )
                raise UsageError(f"no finding or topic named {name!r}{question}")
        for name in names:
            if name in EXPLAIN_PAGES:
                self._show_mechanism(EXPLAIN_PAGES[name])
            else:
                self._show_code(*titled_code_by_name[name], shows_full_page=True)
        if not names:
            for title, code in titled_codes:
                self._show_code(title, code, shows_full_page=False)
            for page in EXPLAIN_PAGES.values():
                page_row: dict[str, object] = {"topic": page.name, "title": page.title}
                sink.write_document(
                    EXPLAIN_PAGE_ROW, page_row, _format_mechanism_line(page, sink.streams.width)
                )
            codes_text = format_count(len(titled_codes), "kind")
            mechanisms_text = format_count(len(EXPLAIN_PAGES), "topic")
            sink.write_hint(
                f"{codes_text} of findings, {mechanisms_text}; kfmt explain NAME for details"
            )

    def _show_code(self, title: str, code: FindingCode, shows_full_page: bool) -> None:
        sink = self.run.sink
        row = {**finding_code_members(code), "about": title, "meaning": code.meaning}
        lines = (_format_code_page if shows_full_page else _format_code_line)(
            code, sink.streams.theme, sink.streams.width
        )
        sink.write_document(CODE_ROW, row, lines)

    def _show_mechanism(self, page: PageSpec) -> None:
        """Show a mechanism's page."""
        sink = self.run.sink
        page_facts = replace(load_page_facts(self._path), wheel_settings=self._wheel_settings)
        sections = list(page.iter_sections(page_facts))
        page_row: dict[str, object] = {"topic": page.name, "title": page.title, "parts": sections}
        sink.write_document(
            EXPLAIN_PAGE_ROW,
            page_row,
            _format_mechanism_page(page, sections, sink.streams.theme, sink.streams.width),
        )
        if page.name == "timing-wheel" and not sink.is_for_people:
            from kfmt_cli.commands.explain.pages.wheel import iter_timer_events

            for event in iter_timer_events(page_facts):
                event_members = {"at": event.time_ms, "kind": event.kind, "timer": event.timer.name}
                location_members = {
                    "level": event.level,
                    "bucket": event.bucket,
                    "looked_at": event.bucket_due_ms,
                }
                sink.write_document(WHEEL_STEP_ROW, {**event_members, **location_members}, ())


def _parse_wheel_settings(
    options: ExplainOptions,
) -> tuple[int, int, tuple[int, ...], int | None]:
    tick_ms = _parse_duration_ms(options.tick)
    if tick_ms < 1:
        raise UsageError("--tick: at least 1ms")
    delays_ms = tuple(map(_parse_duration_ms, options.timers)) or (5, 130, 450)
    at_ms = None if options.at is None else _parse_duration_ms(options.at)
    return tick_ms, options.size, delays_ms, at_ms


def _parse_duration_ms(text: str) -> int:
    """Parse a duration such as 20, 20ms or 3s into milliseconds; raises UsageError."""
    for unit, unit_ms in (("ms", 1), ("s", 1000), ("", 1)):
        number = parse_int(text.removesuffix(unit)) if text.endswith(unit) else None
        if number is not None and number >= 0:
            return number * unit_ms
    raise UsageError(f"{text!r}: not a duration such as 20ms or 3s")


def _format_code_line(code: FindingCode, theme: Theme, width: int | None) -> list[str]:
    """A line in the list of codes."""
    meaning_width = max((width or 1 << 20) - 12 - max(34, len(code.name)), 20)
    meaning = textwrap.shorten(code.meaning, meaning_width, placeholder=" …")
    severity = theme.paint(STYLE_BY_SEVERITY[code.severity], f"{code.severity.value:<7}")
    return [f" {severity}  {code.name:<34} {meaning}\n"]


def _format_code_page(code: FindingCode, theme: Theme, width: int | None) -> list[str]:
    """The explanation of a kind of finding."""
    severity = theme.paint(STYLE_BY_SEVERITY[code.severity], code.severity.value)
    lines = [
        f"{theme.paint('bold', code.name)}   {severity}: {MEANING_BY_SEVERITY[code.severity]}\n"
    ]
    for label, labelled_text in (("meaning", code.meaning), *code.consequences):
        lines += [
            f"{line}\n"
            for line in wrap_labelled_text(labelled_text, width, label, margin_columns=2)
        ]
    return lines


def _format_mechanism_line(page: PageSpec, width: int | None) -> list[str]:
    """A line in the list of mechanisms."""
    name_and_title = f"{page.name:<43} {page.title}"
    return [
        f"{line}\n"
        for line in wrap_labelled_text(name_and_title, width, margin_columns=1, hanging_indent=45)
    ]


def _format_mechanism_page(
    page: PageSpec, sections: Iterable[PageSection], theme: Theme, width: int | None
) -> list[str]:
    """A mechanism's page: wrapped sentences, and drawings printed verbatim."""
    lines = [f"{theme.paint('bold', page.title)}\n"]
    for section in sections:
        lines.append("\n")
        if isinstance(section, str):
            lines += [
                f"{line}\n"
                for line in wrap_labelled_text(
                    escape_unprintable(section), width or 80, margin_columns=0
                )
            ]
        else:
            lines += [f"  {escape_unprintable(line)}\n" for line in section]
    return lines
