"""explain: the pages on findings and mechanisms, as in docs/."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches

from kfmt_cli.checks.registry import code_chapters
from kfmt_cli.commands.explain.lines import code_line, code_page, topic_line, topic_page
from kfmt_cli.commands.explain.pages import PAGES
from kfmt_cli.commands.explain.pages.page import ListedPage, facts_of
from kfmt_cli.commands.run import Run
from kfmt_cli.errors import UsageError
from kfmt_cli.findings.finding import Code
from kfmt_cli.render.style import count
from kfmt_cli.rows.documents import CODE, PAGE, STEP
from kfmt_cli.rows.types.finding_row import of_code


@dataclass(slots=True)
class Explain:
    """One call of `explain`."""

    run: Run
    path: str | None = None
    """A partition to illustrate the pages with; None for a sample."""
    wheel: tuple[int, int, tuple[int, ...], int | None] = (1, 20, (), None)
    """Tick, buckets, timers and time of the timing wheel."""

    def names(self, names: tuple[str, ...]) -> None:
        """Show the pages of some findings or mechanisms, or list all; raises UsageError."""
        sink = self.run.sink
        every = [(title, code) for title, codes in code_chapters() for code in codes]
        by_name = {code.name: (title, code) for title, code in every}
        names = tuple(map(str.lower, names))
        for name in names:
            if name not in by_name and name not in PAGES:
                near = get_close_matches(name, [*by_name, *PAGES], 3, 0.5)
                words = (
                    f"did you mean {', '.join(near)}?" if near else "run kfmt explain to list all"
                )
                raise UsageError(f"no finding or topic named {name!r}; {words}")
        for name in names:
            if name in PAGES:
                self._topic(PAGES[name])
            else:
                self._code(*by_name[name], whole=True)
        if not names:
            for title, code in every:
                self._code(title, code, whole=False)
            for page in PAGES.values():
                row: dict[str, object] = {"topic": page.name, "title": page.title}
                sink.document(PAGE, row, topic_line(page, sink.out.width))
            kinds, topics = count(len(every), "kind"), count(len(PAGES), "topic")
            sink.remark(f"{kinds} of findings, {topics}; kfmt explain NAME for details")

    def _code(self, title: str, code: Code, whole: bool) -> None:
        sink = self.run.sink
        row = {**of_code(code), "about": title, "meaning": code.meaning}
        lines = (code_page if whole else code_line)(code, sink.out.theme, sink.out.width)
        sink.document(CODE, row, lines)

    def _topic(self, page: ListedPage) -> None:
        """Show a mechanism's page."""
        sink = self.run.sink
        facts = replace(facts_of(self.path), wheel=self.wheel)
        parts = list(page.parts(facts))
        row: dict[str, object] = {"topic": page.name, "title": page.title, "parts": parts}
        sink.document(PAGE, row, topic_page(page, parts, sink.out.theme, sink.out.width))
        if page.name == "timing-wheel" and not sink.for_people:
            from kfmt_cli.commands.explain.pages.wheel import steps_of

            for step in steps_of(facts):
                of = {"at": step.now, "kind": step.kind, "timer": step.timer.name}
                where = {"level": step.level, "bucket": step.bucket, "looked_at": step.start}
                sink.document(STEP, {**of, **where}, ())
