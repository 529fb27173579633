"""verify-crc of files that are no logs, in a layout that was asked for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kfmt_cli.commands.run import Event, Unread, told
from kfmt_cli.commands.verify import LOG_RESULT
from kfmt_cli.disk.kinds.kind import Input, Kind
from kfmt_cli.disk.tree import classify, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.findings.finding import MOST_FINDINGS
from kfmt_cli.rows.result import Result


@dataclass(slots=True)
class VerifyKind:
    """Checks the files given as files of one kind."""

    kind: Kind
    most_findings: int = MOST_FINDINGS
    _files: list[Input] = field(default_factory=list)

    def plan(self, paths: tuple[str, ...]) -> Iterator[Unread]:
        """Take the files as they are given."""
        self._files = [replace(classify(path, path), kind=self.kind) for path in paths]
        return iter(())

    @property
    def total(self) -> int:
        """Bytes of all files."""
        return sum(map(size_of, self._files))

    def names(self) -> Iterator[str]:
        """The names of the files that will have a line."""
        return (file.name for file in self._files)

    def events(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[Event]:
        """Check all files; what is found, in their order."""
        for file in self._files:
            assert self.kind.read is not None
            try:
                contents = self.kind.read(file)
            except InputError as error:
                yield Unread.of(error)
                continue
            advance(contents.size)
            numbers = {"bytes": contents.size, "records": len(contents.table)}
            result = Result(LOG_RESULT, file.name, self.kind.name, numbers)
            result.take(contents.findings)
            yield from told(result)
