"""Small text files of names and values, straight from their Layout: see `formats/properties.py`.

A file is one row; a missing name is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kfmt_cli.core.json_text import json_text
from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol import ListOf, UuidType
from kfmt_cli.core.layout.wire import Integer
from kfmt_cli.core.uuids import uuid_bytes
from kfmt_cli.disk.kinds.kind import Contents, Input, quoted, read_whole
from kfmt_cli.findings import files as codes
from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.formats import properties
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.section import section_of

MOST_BYTES = 1 << 20
_LATIN = "iso-8859-1"
_LINE = re.compile(r"(?<=\n)")
_JAVA_LINE = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
OTHER = Column(
    "other",
    ColumnKind.JSON,
    "Unknown properties, with their values.",
    only=("has_other", 1),
)

Said = tuple[int, str, object]  # the byte at which it begins, its name, its value
Told = Callable[[int, str], None]


def rows_of(name: str, layout: Layout) -> RowType:
    """The row type of a file of names and values."""
    return RowType(name, layout.doc, (*map(_column, layout.fields), OTHER))


def _column(field: Field) -> Column:
    given = f"has_{field.name}"
    if isinstance(field.type, Integer):
        return Column(field.name, doc=field.doc, given=given, bits=8 * field.type.size)
    kind = ColumnKind.JSON if isinstance(field.type, ListOf) else ColumnKind.TEXT
    return Column(field.name, kind, field.doc, given=given)


@dataclass(frozen=True, slots=True)
class PropertiesReader:
    """Reads a file of names and values."""

    rows: RowType
    layout: Layout
    malformed: Code
    split: Callable[[str, Told], Iterator[Said]]
    """Splits a text into names and values; reports other lines to its second argument."""
    spelled: Callable[[str], str]
    """A field's name as spelled in the file."""
    needed: tuple[tuple[str, ...], ...] = ()
    """Required fields; of each group, any one suffices."""
    empty: bool = False
    """Whether such a file may be empty."""
    charset: str = "utf-8"
    known: Mapping[str, range] = field(default_factory=dict)
    """The values of a field that brokers accept, if only some."""

    def __call__(self, file: Input) -> Contents:
        """The row of a file; raises InputError."""
        data = read_whole(file, MOST_BYTES)
        findings: list[Finding] = []

        def malformed(position: int, words: str) -> None:
            findings.append(Finding(file.name, self.malformed, position, words))

        try:
            text = data.decode(self.charset)
        except UnicodeDecodeError as error:
            malformed(error.start, "invalid UTF-8")
            text = data.decode(errors="replace")
        values: dict[str, str | int | None] = {}
        other: dict[str, object] = {}
        fields = {self.spelled(its.name): its for its in self.layout.fields}
        if text or not self.empty:
            for position, name, value in self.split(text, malformed):
                its = fields.get(name)
                if its is None:
                    other[name] = value
                    continue
                try:
                    values[its.name] = _value_of(its, value)
                except ValueError:
                    malformed(position, f"{name} is {value!r}, not a valid {its.type.name}")
                    continue
                known = self.known.get(its.name)
                if known is not None and values[its.name] not in known:
                    words = f"only {known[0]} to {known[-1]} are supported"
                    malformed(position, f"{name} is {value}; {words}")
            for names in self.needed:
                if not any(values.get(name) is not None for name in names) and not findings:
                    words = " or ".join(map(self.spelled, names))
                    malformed(len(data), f"the file lacks {words}")
        row = [values.get(its.name) for its in self.layout.fields]
        row.append(json_text(other) if other else None)
        return Contents(len(data), [section_of(self.rows, [row])], findings)


def _value_of(field: Field, value: object) -> str | int | None:
    """A value in the form of the field's column; raises ValueError."""
    if value is None:
        return None
    if isinstance(field.type, ListOf):
        return json_text(_in_snake_case(value))
    if isinstance(field.type, Integer):
        number = int(str(value))
        if number.bit_length() >= 8 * field.type.size:
            raise ValueError(value)
        return number
    if field.type is UuidType and len(uuid_bytes(str(value))) != 16:
        raise ValueError(value)
    return str(value)


def _in_snake_case(value: object) -> object:
    """The names inside a value in kfmt's spelling."""
    if isinstance(value, list):
        return [_in_snake_case(element) for element in value]
    if isinstance(value, dict):
        return {
            _SNAKE.sub(r"_\1", name).lower(): _in_snake_case(member)
            for name, member in value.items()
        }
    return value


def colon_lines(text: str, malformed: Told) -> Iterator[Said]:
    """Lines of `name: value`."""
    for at, line in _lines(text):
        name, colon, value = line.partition(":")
        if colon:
            yield at, name.strip(), value.strip()
        elif line.strip():
            malformed(at, f"line without a colon: {quoted(line.strip())}")


def java_text(data: bytes) -> str:
    """The text of a Java properties file."""
    return data.decode(_LATIN)


def java_properties(text: str, malformed: Told) -> Iterator[Said]:
    """A Java properties file, decoded as ISO 8859-1. Source: `java.util.Properties.load`."""
    start, logical = 0, ""
    for at, line in _lines(text, _JAVA_LINE, _LATIN):
        part = line.lstrip(" \t\f")
        if not logical:
            start = at
            if not part or part[0] in "#!":
                continue
        logical += part
        if (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1]
            continue
        yield _property(start, logical, malformed)
        logical = ""
    if logical:
        yield _property(start, logical, malformed)


_SNAKE = re.compile(r"(?<=[a-z0-9])([A-Z])")
_PROPERTY = re.compile(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_HALF_ESCAPE = re.compile(r"(?:^|[^\\])(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _property(at: int, line: str, malformed: Told) -> Said:
    if _HALF_ESCAPE.search(line):
        malformed(at, f"incomplete \\u escape in {line!r}")
    match = _PROPERTY.match(line)
    assert match is not None  # it matches anything
    name, value = (_ESCAPE.sub(_unescaped, group) for group in match.groups())
    return at, name, value


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPED.get(escape, escape)


def json_object(text: str, malformed: Told) -> Iterator[Said]:
    """One JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        at = error.pos if isinstance(error, json.JSONDecodeError) else 0
        malformed(len(text[:at].encode()), f"not JSON: {error}")
        return
    if not isinstance(found, dict):
        malformed(0, f"not a JSON object: {quoted(text.strip())}")
        return
    yield from ((0, name, value) for name, value in found.items())


def _lines(
    text: str, end: re.Pattern[str] = _LINE, charset: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """The lines of a text, each with the byte at which it begins."""
    at = 0
    for line in end.split(text):
        yield at, line.rstrip("\r\n")
        at += len(line.encode(charset))


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _quorum(name: str) -> str:
    return name if name == "data_version" else _camel(name)


META_PROPERTIES = PropertiesReader(
    rows_of("meta_properties", properties.META_PROPERTIES),
    properties.META_PROPERTIES,
    codes.META_PROPERTIES_MALFORMED,
    java_properties,
    _dotted,
    (("version",), ("broker_id", "node_id")),
    charset=_LATIN,
)
CLEAN_SHUTDOWN = PropertiesReader(
    rows_of("clean_shutdown", properties.CLEAN_SHUTDOWN),
    properties.CLEAN_SHUTDOWN,
    codes.CLEAN_SHUTDOWN_MALFORMED,
    json_object,
    _camel,
    (("version",),),
    empty=True,
)
PARTITION_METADATA = PropertiesReader(
    rows_of("partition_metadata", properties.PARTITION_METADATA),
    properties.PARTITION_METADATA,
    codes.PARTITION_METADATA_MALFORMED,
    colon_lines,
    str,
    (("version",), ("topic_id",)),
)
QUORUM_STATE = PropertiesReader(
    rows_of("quorum_state", properties.QUORUM_STATE),
    properties.QUORUM_STATE,
    codes.QUORUM_STATE_MALFORMED,
    json_object,
    _quorum,
    (("data_version",), ("leader_epoch",)),
    known={"data_version": range(2)},
)
