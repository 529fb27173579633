"""A baseline: findings that are known, which a run neither shows nor counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from kfmt_cli.core.json_text import json_text, parse_json
from kfmt_cli.core.regular_files import read_regular_file
from kfmt_cli.core.urls import absolute_path, is_path_or_subpath, normalize_path
from kfmt_cli.errors import OutputError, UsageError
from kfmt_cli.findings.finding import Finding

Key = tuple[str, str, int | None, int | None]


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding of a baseline: members of the JSON contract, and the command that found it."""

    file: str
    code: str
    severity: str | None = None
    position: int | None = None
    offset: int | None = None
    message: str | None = None
    command: str | None = None
    """None if --json wrote it."""

    @property
    def key(self) -> Key:
        """The members that identify it; they are stable, because a damaged segment does not
        change."""
        path = absolute_path(normalize_path(self.file))
        return path, self.code, self.position, self.offset


_MEMBER_NAMES = frozenset(field_.name for field_ in fields(KnownFinding))


def _parse_line(line: bytes) -> KnownFinding | None:
    """The finding of a line of JSON; None for an object of another type. Raises ValueError."""
    row = parse_json(line)
    if not isinstance(row, dict) or "type" not in row:
        raise ValueError("no object with a type")
    if row.pop("type") != "finding":
        return None
    members = {name: value for name, value in row.items() if name in _MEMBER_NAMES}
    if not all(isinstance(members.get(name), str) for name in ("file", "code")):
        raise ValueError("a finding without file or code")
    return KnownFinding(**members)


@dataclass(slots=True)
class Baseline:
    """The known findings of a run, and the findings to add to them."""

    path: str | None
    """The file to read, JSON Lines with findings as --json prints them; None without one."""
    new_path: str | None
    """The file to write; None without one."""
    command: str
    paths: tuple[str, ...]
    """The paths that are read; empty for the current directory."""
    _known_by_key: dict[Key, KnownFinding] = field(default_factory=dict)
    _seen_keys: set[Key] = field(default_factory=set)
    _new_findings: list[KnownFinding] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the file; raises UsageError."""
        if self.path is None:
            return
        try:
            lines = read_regular_file(self.path).splitlines()
        except OSError as error:
            message = f"--baseline {self.path}: {error.strerror}; write one with --write-baseline"
            raise UsageError(message) from None
        for number, line in enumerate(lines, 1):
            try:
                known = _parse_line(line) if line.strip() else None
            except ValueError:
                raise UsageError(
                    f"--baseline {self.path}: line {number} is not a finding; a baseline has the "
                    "JSON Lines that --write-baseline or --json writes"
                ) from None
            if known is not None:
                self._known_by_key[known.key] = known

    @property
    def n_known(self) -> int:
        """The number of known findings that were found again."""
        return len(self._seen_keys)

    def _describe(self, finding: Finding) -> KnownFinding:
        code = finding.code
        return KnownFinding(
            *(finding.file, code.name, code.severity.value, finding.position, finding.offset),
            *(finding.message, self.command),
        )

    def is_known(self, finding: Finding) -> bool:
        """Whether the file has this finding."""
        if not self._known_by_key:
            return False
        key = self._describe(finding).key
        if key in self._known_by_key:
            self._seen_keys.add(key)
        return key in self._known_by_key

    def add_finding(self, finding: Finding) -> None:
        """Add a finding to the file to write."""
        if self.new_path is not None:
            self._new_findings.append(self._describe(finding))

    def _is_stale(self, key: Key, known: KnownFinding) -> bool:
        """Whether this run would have found it; check finds what the other commands find."""
        roots = [absolute_path(normalize_path(path)) for path in self.paths or (".",)]
        return (
            key not in self._seen_keys
            and (self.command == "check" or known.command in (None, self.command))
            and any(is_path_or_subpath(key[0], root) for root in roots)
        )

    def finish(self, report: Callable[[str], None]) -> None:
        """Report the known findings that were not found again, and write the new file; raises
        OutputError."""
        stale_keys = {
            key for key, known in self._known_by_key.items() if self._is_stale(key, known)
        }
        if stale_keys:
            first = next(known for key, known in self._known_by_key.items() if key in stale_keys)
            place = "" if first.position is None else f" at byte {first.position}"
            count = "1 finding" if len(stale_keys) == 1 else f"{len(stale_keys)} findings"
            report(
                f"{self.path}: {count} not found again, such as {first.code} in "
                f"{first.file}{place}; --write-baseline writes the file without them"
            )
        if self.new_path is None:
            return
        from kfmt_cli.writers.single_file import write_single_file

        kept = [known for key, known in self._known_by_key.items() if key not in stale_keys]
        found = sorted(
            [*kept, *self._new_findings],
            key=lambda known: (known.file, known.position or 0, known.code),
        )
        text = "".join(f"{json_text({'type': 'finding', **asdict(known)})}\n" for known in found)
        if Path(self.new_path).is_dir():
            raise OutputError(f"{self.new_path}: is a directory; name a file")
        write_single_file(Path(self.new_path), text.encode("utf-8", "backslashreplace"))
