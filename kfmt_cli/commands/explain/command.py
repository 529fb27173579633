"""explain: the pages on findings and mechanisms, as in docs/."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches

from kfmt_cli.checks.registry import iter_codes_by_subject
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.explain.lines import code_page, format_code_line, topic_line, topic_page
from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES
from kfmt_cli.commands.explain.pages.page import PageSpec, load_page_facts
from kfmt_cli.errors import UsageError
from kfmt_cli.findings.finding import FindingCode
from kfmt_cli.render.style import format_count
from kfmt_cli.rows.types.finding_row import code_members
from kfmt_cli.rows.types.reference_rows import CODE_ROW, EXPLAIN_PAGE_ROW, WHEEL_STEP_ROW


@dataclass(slots=True)
class ExplainCommand:
    """One call of `explain`."""

    run: CommandRun
    path: str | None = None
    """A partition to illustrate the pages with; None for a sample."""
    wheel_settings: tuple[int, int, tuple[int, ...], int | None] = (1, 20, (), None)
    """Tick, buckets, timers and time of the timing wheel."""

    def show_pages(self, names: tuple[str, ...]) -> None:
        """Show the pages of some findings or mechanisms, or list all; raises UsageError."""
        sink = self.run.sink
        titled_codes = [(title, code) for title, codes in iter_codes_by_subject() for code in codes]
        code_by_name = {code.name: (title, code) for title, code in titled_codes}
        names = tuple(map(str.lower, names))
        for name in names:
            if name not in code_by_name and name not in EXPLAIN_PAGES:
                candidates = get_close_matches(name, [*code_by_name, *EXPLAIN_PAGES], 3, 0.5)
                hint = (
                    f"did you mean {', '.join(candidates)}?"
                    if candidates
                    else "run kfmt explain to list all"
                )
                raise UsageError(f"no finding or topic named {name!r}; {hint}")
        for name in names:
            if name in EXPLAIN_PAGES:
                self._show_topic(EXPLAIN_PAGES[name])
            else:
                self._show_code(*code_by_name[name], full=True)
        if not names:
            for title, code in titled_codes:
                self._show_code(title, code, full=False)
            for page in EXPLAIN_PAGES.values():
                row: dict[str, object] = {"topic": page.name, "title": page.title}
                sink.write_document(EXPLAIN_PAGE_ROW, row, topic_line(page, sink.out.width))
            codes_text = format_count(len(titled_codes), "kind")
            topics_text = format_count(len(EXPLAIN_PAGES), "topic")
            sink.write_hint(
                f"{codes_text} of findings, {topics_text}; kfmt explain NAME for details"
            )

    def _show_code(self, title: str, code: FindingCode, full: bool) -> None:
        sink = self.run.sink
        row = {**code_members(code), "about": title, "meaning": code.meaning}
        lines = (code_page if full else format_code_line)(code, sink.out.theme, sink.out.width)
        sink.write_document(CODE_ROW, row, lines)

    def _show_topic(self, page: PageSpec) -> None:
        """Show a mechanism's page."""
        sink = self.run.sink
        page_facts = replace(load_page_facts(self.path), wheel_settings=self.wheel_settings)
        sections = list(page.iter_sections(page_facts))
        row: dict[str, object] = {"topic": page.name, "title": page.title, "parts": sections}
        sink.write_document(
            EXPLAIN_PAGE_ROW, row, topic_page(page, sections, sink.out.theme, sink.out.width)
        )
        if page.name == "timing-wheel" and not sink.for_people:
            from kfmt_cli.commands.explain.pages.wheel import iter_timer_events

            for event in iter_timer_events(page_facts):
                event_members = {"at": event.time_ms, "kind": event.kind, "timer": event.timer.name}
                location_members = {
                    "level": event.level,
                    "bucket": event.bucket,
                    "looked_at": event.bucket_due_ms,
                }
                sink.write_document(WHEEL_STEP_ROW, {**event_members, **location_members}, ())
