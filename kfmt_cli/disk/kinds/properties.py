"""Small text files of names and values, straight from their Layout: see `formats/properties.py`.

A file is one row; a missing name is null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kfmt_cli.core.integers import java_trim, parse_java_int
from kfmt_cli.core.json_text import json_text, parse_json
from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import DeclaredListType, UuidType
from kfmt_cli.core.layout.wire_types import IntegerWireType
from kfmt_cli.core.uuids import parse_uuid
from kfmt_cli.disk.kinds.kind import FileContents, InputFile, quote_content, read_small_file
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.formats import properties
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import build_columnar_rows

MAX_PROPERTIES_BYTES = 1 << 20
_LATIN_1 = "iso-8859-1"
_LINE_BREAK = re.compile(r"(?<=\n)")
_JAVA_LINE_BREAK = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_COLON_PATTERN = re.compile(r"([^:]*)(:?)[ \t\n\v\f\r]*(.*)", re.DOTALL)
OTHER_COLUMN = Column(
    "other",
    ColumnKind.JSON,
    "Unknown properties, with their values.",
    present_if=("has_other", 1),
)

PropertyEntry = tuple[int, str, object]  # the byte at which it begins, its name, its value
ReportMalformed = Callable[[int, str], None]


def build_row_type(name: str, layout: Layout) -> RowType:
    """The row type of a file of names and values."""
    return RowType(name, layout.doc, (*map(_field_column, layout.fields), OTHER_COLUMN))


def _field_column(field: Field) -> Column:
    presence_column = f"has_{field.name}"
    if isinstance(field.type, IntegerWireType):
        return Column(
            field.name, doc=field.doc, presence_column=presence_column, n_bits=8 * field.type.size
        )
    column_kind = ColumnKind.JSON if isinstance(field.type, DeclaredListType) else ColumnKind.TEXT
    return Column(field.name, column_kind, field.doc, presence_column=presence_column)


@dataclass(frozen=True, slots=True)
class PropertiesReader:
    """Reads a file of names and values."""

    row_type: RowType
    layout: Layout
    malformed_code: FindingCode
    parse_entries: Callable[[str, ReportMalformed], Iterator[PropertyEntry]]
    """Splits a text into names and values; reports other lines to its second argument."""
    to_property_name: Callable[[str], str]
    """A field's name as spelled in the file."""
    required_field_groups: tuple[tuple[str, ...], ...] = ()
    """Required fields; of each group, any one suffices."""
    may_be_empty: bool = False
    """Whether such a file may be empty."""
    charset: str = "utf-8"
    valid_range_by_field: Mapping[str, range] = field(default_factory=dict)
    """The values that brokers accept, by field; without an entry, all."""
    version_field: str = ""
    """For a message of Kafka in JSON: the field with its version. All fields of the version must be
    there, in their JSON types; others are ignored."""

    def __call__(self, file: InputFile) -> FileContents:
        """The row of a file; raises InputError."""
        file_bytes = read_small_file(file, MAX_PROPERTIES_BYTES)
        findings: list[Finding] = []

        def report_malformed(position: int, message: str) -> None:
            findings.append(Finding(file.name, self.malformed_code, position, message))

        try:
            file_text = file_bytes.decode(self.charset)
        except UnicodeDecodeError as error:
            report_malformed(error.start, "invalid UTF-8")
            file_text = file_bytes.decode(errors="replace")
        value_by_field: dict[str, str | int | None] = {}
        unknown_value_by_name: dict[str, object] = {}
        field_by_name = {
            self.to_property_name(layout_field.name): layout_field
            for layout_field in self.layout.fields
        }
        if file_text or not self.may_be_empty:
            entries = list(self.parse_entries(file_text, report_malformed))
            message_fields = self._message_fields({name: value for _, name, value in entries})
            for position, name, value in entries:
                layout_field = field_by_name.get(name)
                if layout_field is None:
                    unknown_value_by_name[name] = value
                    continue
                if layout_field in message_fields and not _is_json_of_field(layout_field, value):
                    detail = f"not a valid JSON {layout_field.type.name}"
                    report_malformed(position, f"{name} is {json_text(value)}, {detail}")
                    continue
                try:
                    value_by_field[layout_field.name] = _parse_value(layout_field, value)
                except ValueError:
                    report_malformed(
                        position, f"{name} is {value!r}, not a valid {layout_field.type.name}"
                    )
                    continue
                valid_range = self.valid_range_by_field.get(layout_field.name)
                if valid_range is not None and value_by_field[layout_field.name] not in valid_range:
                    detail = f"only {valid_range[0]} to {valid_range[-1]} are supported"
                    report_malformed(position, f"{name} is {value}; {detail}")
            message_field_groups = [(layout_field.name,) for layout_field in message_fields]
            for field_names in (*self.required_field_groups, *message_field_groups):
                if (
                    not any(value_by_field.get(name) is not None for name in field_names)
                    and not findings
                ):
                    detail = " or ".join(map(self.to_property_name, field_names))
                    report_malformed(len(file_bytes), f"the file lacks {detail}")
        row = [value_by_field.get(layout_field.name) for layout_field in self.layout.fields]
        row.append(json_text(unknown_value_by_name) if unknown_value_by_name else None)
        return FileContents(len(file_bytes), [build_columnar_rows(self.row_type, [row])], findings)

    def _message_fields(self, value_by_name: Mapping[str, object]) -> tuple[Field, ...]:
        """The fields of a message with these values, by its version."""
        version = value_by_name.get(self.to_property_name(self.version_field))
        if not self.version_field or not isinstance(version, int):
            return ()
        return tuple(
            layout_field
            for layout_field in self.layout.fields
            if layout_field.name != self.version_field
            and layout_field.since <= version
            and (layout_field.until is None or version <= layout_field.until)
        )


def _parse_value(field: Field, value: object) -> str | int | None:
    """A value in the form of the field's column; raises ValueError."""
    if value is None:
        return None
    if isinstance(field.type, DeclaredListType):
        return json_text(_with_snake_case_names(value))
    if isinstance(field.type, IntegerWireType):
        number_text = java_trim(str(value)) if field.name == "version" else str(value)
        number = parse_java_int(number_text, 8 * field.type.size)
        if number is None:
            raise ValueError(value)
        return number
    if field.type is UuidType:
        parse_uuid(str(value))
    return str(value)


def _is_json_of_field(field: Field, value: object) -> bool:
    """Whether Kafka takes a JSON value for a field of a message. Source:
    `org.apache.kafka.common.protocol.MessageUtil`."""
    if isinstance(field.type, IntegerWireType):
        limit = 1 << (8 * field.type.size - 1)
        return type(value) is int and -limit <= value < limit
    if isinstance(field.type, DeclaredListType):
        element_type = field.type.element_type
        element_fields = element_type.fields if isinstance(element_type, Layout) else ()
        return isinstance(value, list) and all(
            isinstance(element, dict)
            and all(
                _is_json_of_field(element_field, element.get(_to_camel_case(element_field.name)))
                for element_field in element_fields
            )
            for element in value
        )
    return isinstance(value, str)


def _with_snake_case_names(json_value: object) -> object:
    """A value with the names inside it in snake case, as in the JSON contract."""
    if isinstance(json_value, list):
        return [_with_snake_case_names(element) for element in json_value]
    if isinstance(json_value, dict):
        return {
            _CAMEL_BOUNDARY.sub(r"_\1", name).lower(): _with_snake_case_names(member)
            for name, member in json_value.items()
        }
    return json_value


def parse_colon_lines(text: str, report_malformed: ReportMalformed) -> Iterator[PropertyEntry]:
    """Lines of `name: value`, with white space after the colon. Source: `PartitionMetadataFile`."""
    for position, line in _iter_lines(text, _JAVA_LINE_BREAK):
        name, separator, value = _COLON_PATTERN.match(line).groups()  # type: ignore[union-attr]
        if separator:
            yield position, name.strip(), value
        elif line.strip():
            report_malformed(position, f"line without a colon: {quote_content(line.strip())}")


def decode_java_properties(data: bytes) -> str:
    """The text of a Java properties file."""
    return data.decode(_LATIN_1)


def parse_java_properties(text: str, report_malformed: ReportMalformed) -> Iterator[PropertyEntry]:
    """The names and values of a Java properties file, decoded as ISO 8859-1. Source:
    `java.util.Properties.load`."""
    start_position, logical_line, ends_in_escape = 0, "", False
    for position, line in _iter_lines(text, _JAVA_LINE_BREAK, _LATIN_1):
        if position == len(text):  # after the last line break
            break
        stripped_line = line.lstrip(" \t\f")
        ends_in_escape = False
        if not logical_line:
            start_position = position
            if not stripped_line or stripped_line[0] in "#!":
                continue
        logical_line += stripped_line
        if (len(logical_line) - len(logical_line.rstrip("\\"))) % 2:
            logical_line = logical_line[:-1]
            ends_in_escape = True
            continue
        yield _parse_property(start_position, logical_line, report_malformed)
        logical_line = ""
    # Java reads an escaped line break at the very end, if it is one character, as an empty name.
    if logical_line or (ends_in_escape and not text.endswith("\r\n")):
        yield _parse_property(start_position, logical_line, report_malformed)


_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])([A-Z])")
_PROPERTY_PATTERN = re.compile(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE_PATTERN = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_INCOMPLETE_ESCAPE_PATTERN = re.compile(r"(?:^|[^\\])(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
_CHARACTER_BY_ESCAPE = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _parse_property(
    position: int, logical_line: str, report_malformed: ReportMalformed
) -> PropertyEntry:
    if _INCOMPLETE_ESCAPE_PATTERN.search(logical_line):
        report_malformed(position, f"incomplete \\u escape in {logical_line!r}")
    match = _PROPERTY_PATTERN.match(logical_line)
    assert match is not None  # it matches anything
    name, value = (_ESCAPE_PATTERN.sub(_unescape, group) for group in match.groups())
    return position, name, value


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    return (
        chr(int(escape[1:], 16)) if len(escape) == 5 else _CHARACTER_BY_ESCAPE.get(escape, escape)
    )


def parse_json_object(text: str, report_malformed: ReportMalformed) -> Iterator[PropertyEntry]:
    """The names and values of a JSON object."""
    try:
        json_value = parse_json(text)
    except ValueError as error:
        error_index = error.pos if isinstance(error, json.JSONDecodeError) else 0
        report_malformed(len(text[:error_index].encode()), f"not JSON: {error}")
        return
    if not isinstance(json_value, dict):
        report_malformed(0, f"not a JSON object: {quote_content(text.strip())}")
        return
    yield from ((0, name, value) for name, value in json_value.items())


def _iter_lines(
    text: str, line_break: re.Pattern[str] = _LINE_BREAK, charset: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """The lines of a text, each with the byte at which it begins."""
    position = 0
    for line in line_break.split(text):
        yield position, line.rstrip("\r\n")
        position += len(line.encode(charset))


def _to_dotted_name(name: str) -> str:
    return name.replace("_", ".")


def _to_camel_case(name: str) -> str:
    first_word, *other_words = name.split("_")
    return first_word + "".join(map(str.capitalize, other_words))


def _to_quorum_state_name(name: str) -> str:
    return name if name == "data_version" else _to_camel_case(name)


META_PROPERTIES = PropertiesReader(
    build_row_type("meta_properties", properties.META_PROPERTIES),
    properties.META_PROPERTIES,
    codes.META_PROPERTIES_MALFORMED,
    parse_java_properties,
    _to_dotted_name,
    (("version",), ("broker_id", "node_id")),
    charset=_LATIN_1,
    valid_range_by_field={"version": range(2)},
)
CLEAN_SHUTDOWN = PropertiesReader(
    build_row_type("clean_shutdown", properties.CLEAN_SHUTDOWN),
    properties.CLEAN_SHUTDOWN,
    codes.CLEAN_SHUTDOWN_MALFORMED,
    parse_json_object,
    _to_camel_case,
    (("version",),),
    may_be_empty=True,
)
PARTITION_METADATA = PropertiesReader(
    build_row_type("partition_metadata", properties.PARTITION_METADATA),
    properties.PARTITION_METADATA,
    codes.PARTITION_METADATA_MALFORMED,
    parse_colon_lines,
    str,
    (("version",), ("topic_id",)),
)
QUORUM_STATE = PropertiesReader(
    build_row_type("quorum_state", properties.QUORUM_STATE),
    properties.QUORUM_STATE,
    codes.QUORUM_STATE_MALFORMED,
    parse_json_object,
    _to_quorum_state_name,
    (("data_version",), ("leader_epoch",)),
    valid_range_by_field={"data_version": range(2)},
    version_field="data_version",
)
