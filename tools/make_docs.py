"""Write the pages that follow from the code: formats, commands and their man pages, findings.

python -m tools.make_docs            write them
python -m tools.make_docs --check    only say whether they are up to date
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace

import click

from kfmt_cli.checks.registry import iter_codes_by_subject
from kfmt_cli.cli import MODULE_BY_COMMAND, kfmt
from kfmt_cli.commands.contract import contract_sections, distinguishing_member, shapes_by_name
from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES
from kfmt_cli.commands.explain.pages.page import load_page_facts
from kfmt_cli.commands.format.command import format_chapters
from kfmt_cli.commands.format.json_schema import format_schema
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.disk import kinds
from kfmt_cli.disk.kinds.kind import Kind
from kfmt_cli.formats.checkpoint import CHECKPOINTS
from kfmt_cli.render.finding import finding_consequences
from kfmt_cli.rows.column import LOCATION_COLUMNS, Column, ColumnKind, RowType
from kfmt_cli.rows.json_schemas import (
    CONTRACT_VERSION,
    ENUM_BY_MEMBER,
    SCHEMA_BY_MEMBER,
    JsonSchema,
)
from kfmt_cli.rows.table_types import FOUND_RECORDS_TABLE, TABLES
from kfmt_cli.rows.types.compare_rows import COMPARED_RANGE_ROW
from kfmt_cli.rows.types.format_entries import describe_size, iter_format_entries
from kfmt_cli.rows.types.stats_rows import STATS_ROW_BY_TABLE
from kfmt_cli.spark.source_options import OPTIONS
from kfmt_cli.spark.tables import spark_type
from tests.support.matrix import matrix
from tools.kafka import ROOT
from tools.man import man_pages

MADE = "<!-- made by tools/make_docs.py -->\n"


def formats() -> str:
    """docs/formats.md"""
    intro = (
        "All integers are big-endian two's complement; varints are base-128, least significant "
        "group first. `varint` and `varlong` are zigzag-encoded."
    )
    parts = [f"# Formats\n\n{MADE}\n{intro}\n"]
    for chapter in format_chapters():
        parts.append(f"\n## {chapter.title}\n")
        parts += [_format(layout) for layout in chapter.layouts]
    parts.append(
        "\n## Files\n\nThe name of a file determines its kind. Files that a broker has finished "
        "with or not yet completed end in .deleted, .cleaned, .swap, .part or .tmp.\n\n"
        "| kind | names | belongs to a | rows |\n|---|---|---|---|\n"
    )
    for kind in kinds.KINDS:
        shown = ", ".join(dict.fromkeys(f"`{type_.name}`" for type_ in kind.row_types))
        named = ", ".join(f"`{text}`" for text in kind.name_patterns)
        parts.append(f"| `{kind.name}` | {named} | {kind.level.value} | {shown} |\n")
    parts += [_row_type(rows) for kind in kinds.KINDS for rows in _of_no_layout(kind)]
    return "".join(parts)


def _of_no_layout(kind: Kind) -> Iterator[RowType]:
    """The rows of a kind that no Layout on this page describes."""
    known = {
        field.name
        for chapter in format_chapters()
        for layout in chapter.layouts
        for field in layout.fields
    }
    if kind.holds_batches or kind.names == frozenset(CHECKPOINTS):
        return
    for rows in kind.row_types:
        if {leaf.name for leaf in rows.leaves} - known - {"position", "offset"}:
            yield rows


def _row_type(rows: RowType) -> str:
    lines = [f"\n### `{rows.name}`\n\n{rows.doc}\n\n| column | |\n|---|---|\n"]
    lines += [f"| `{leaf.name}` | {leaf.doc} |\n" for leaf in rows.leaves]
    return "".join(lines)


def _format(layout: Layout) -> str:
    size = f" {describe_size(layout).capitalize()}." if describe_size(layout) else ""
    lines = [f"\n### {layout.name}\n\n{layout.doc}{size} Source: `{layout.source}`.\n\n"]
    versioned = layout.versions is not None
    heading = "| field | type | versions | |" if versioned else "| at | field | type | |"
    lines.append(f"{heading}\n|---|---|---|---|\n")
    for entry in iter_format_entries(layout):
        name, kind = f"`{'.'.join(entry.path)}`", entry.bits or entry.type
        cells = (
            [name, kind, entry.versions]
            if versioned
            else ["" if entry.start is None else str(entry.start)]
        )
        cells += [] if versioned else [name, kind]
        lines.append(f"| {' | '.join(cells)} | {entry.meaning} |\n")
    return "".join(lines)


def json_contract() -> str:
    """docs/json.md"""
    intro = (
        "With `--json`, every line is one object, starting with its `type`. This page lists all "
        "types, with members in output order. Timestamps are milliseconds since 1970 (UTC). "
        "Members that may be null are null if there is no value; members that may be absent are "
        "omitted if they do not apply. Rows from files also have `file`, the path as given.\n\n"
        "[schema/kfmt-1.json](schema/kfmt-1.json) is the JSON Schema of a line, which `kfmt format "
        "--json-schema` prints. Within version 1, types, members and values may be added; none is "
        "removed, renamed or given another meaning. A program should ignore members that it does "
        "not know. `kfmt --version` names the version, as do the schema's `$id` and `json_version` "
        "in the first object of `kfmt report --data`.\n\n"
        "`cat --json` is the exception: it prints the objects of `kcat -J`, which have no `type`. "
        "The schema has them as `#/$defs/kcat`.\n\n"
        "A few types have two shapes, distinguished by a member that only one of them has: "
        f"{_told_apart()}. The schema has them as `oneOf`.\n\n"
        "Generators make types of it for other languages: "
        "[examples/typescript](../examples/typescript/findings.ts) prints the findings of `kfmt "
        "check --json` with types made by json-schema-to-typescript."
    )
    parts = [f"# JSON\n\n{MADE}\n{intro}\n"]
    for part in contract_sections():
        parts.append(f"\n## {part.title}\n")
        parts += [_object(type_) for type_ in part.types]
    return "".join(parts)


def _told_apart() -> str:
    """The types with several shapes, with what tells these apart."""
    several = {name: shapes for name, shapes in shapes_by_name().items() if len(shapes) > 1}
    return ", ".join(
        f"`{name}` ({' or '.join(f'`{distinguishing_member(shape, shapes)}`' for shape in shapes)})"
        for name, shapes in several.items()
    )


_KINDS = {
    ColumnKind.NUMBER: "integer",
    ColumnKind.REAL: "number",
    ColumnKind.FLAG: "true or false",
    ColumnKind.CHOICE: "text",
    ColumnKind.BYTES: "text; if not UTF-8, its encoding is in a separate member",
    ColumnKind.TEXT: "text",
    ColumnKind.TEXTS: "list of text",
    ColumnKind.HEADERS: "list of objects",
    ColumnKind.GROUP: "object",
}


def _object(rows: RowType) -> str:
    lines = [f"\n### `{rows.name}`\n\n{rows.doc}\n"]
    if rows.columns:
        lines.append("\n| member | type | |\n|---|---|---|\n")
    if rows.location_source.has_location and "file" not in rows.leaf_by_name:
        lines += _places()
    for column in rows.columns:
        lines.append(_member(column, ""))
        if rows.location_source.has_location and column.name == "file":
            lines += _places()
        lines += [
            _member(inner, f"{column.name}.")
            for inner in column.members
            if column.kind is ColumnKind.GROUP
        ]
    return "".join(lines)


def words_of(column: Column) -> str:
    """The type of a member in words."""
    if column.kind is ColumnKind.TEXT and column.name in ENUM_BY_MEMBER:
        return "one of " + ", ".join(f"`{word}`" for word in ENUM_BY_MEMBER[column.name])
    if column.kind is not ColumnKind.JSON:
        return _KINDS[column.kind]
    return _shape(SCHEMA_BY_MEMBER[column.name])


def _shape(schema: JsonSchema) -> str:
    """A shape of JSON in words."""
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        return f"list of {_shape(schema['items'])}"
    if kind == "object" and "properties" in schema:
        return f"object with {', '.join(f'`{name}`' for name in schema['properties'])}"
    if kind == "object":
        return "object"
    return {"integer": "integer", "string": "text"}.get(str(kind), "any JSON")


def _places() -> Iterator[str]:
    for name, words in LOCATION_COLUMNS.items():
        kind = "integer" if name == "partition" else "text"
        yield f"| `{name}` | {kind}, may be null | {words} |\n"


def _member(column: Column, before: str) -> str:
    kind = words_of(column)
    kind += ", may be null" if column.presence_column else ""
    kind += ", may be absent" if column.present_if else ""
    return f"| `{before}{column.name}` | {kind} | {column.doc} |\n"


def commands() -> str:
    """docs/commands.md"""
    os.environ["COLUMNS"] = "100"
    parts = [f"# Commands\n\n{MADE}\n```\n{_help(kfmt, 'kfmt', None)}```\n"]
    context = click.Context(kfmt, info_name="kfmt", **kfmt.context_settings)
    for name in MODULE_BY_COMMAND:
        command = kfmt.get_command(context, name)
        assert command is not None
        parts.append(f"\n## {name}\n\n```\n{_help(command, name, context)}```\n")
        if isinstance(command, click.Group):
            within = click.Context(command, info_name=name, parent=context)
            for inner in command.list_commands(within):
                job = command.get_command(within, inner)
                assert job is not None
                words = _help(job, inner, within)
                parts.append(f"\n### {name} {inner}\n\n```\n{words}```\n")
    return "".join(parts)


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    settings = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    return command.get_help(context) + "\n"


FINDINGS = """
All kinds of findings. Names are stable.

- **error**: bytes are lost, or a broker or its consumers fail on them (exit code 1);
- **warning**: a broker tolerates it, but you should know (exit code 1 with `--strict`);
- **note**: for information, no action needed.

Where a log is damaged, `index-missing` and `time-index-missing` are notes: its next start rebuilds
what it keeps.

*After a crash*, a broker finds no `.kafka_cleanshutdown` and recovers each partition from its
recovery point (`recovery-point-offset-checkpoint`), and always the last segment. Everything before
the recovery point is treated as *after a clean shutdown*, when nothing is recovered. Each sentence
describes what Kafka 3.9.1 did in tests with one log directory: `tests/interop/test_claims.py`
damages real partitions, starts a broker on them, and compares files, log end offsets and consumed
records. "In tests, no … failed" means exactly that and no more.
"""


def findings() -> str:
    """docs/findings.md"""
    parts = [f"# Findings\n\n{MADE}{FINDINGS}"]
    for title, codes in iter_codes_by_subject():
        parts.append(f"\n## {title}\n")
        for code in codes:
            parts.append(f"\n### `{code.name}`\n\n**{code.severity.value}** · {code.meaning}\n")
            told = list(finding_consequences(code))
            if told:
                parts.append("\n")
            parts += [f"- *{label}*: {words}\n" for label, words in told]
    return "".join(parts)


def spark_tables() -> str:
    """docs/spark-tables.md"""
    intro = (
        "All columns are nullable; timestamps are microseconds in UTC. Null means that the format "
        "has no such field or the file has no value (a timestamp or producer id of -1)."
    )
    parts = [f"# Tables and options of the data source\n\n{MADE}\n{intro}\n"]
    for name, rows in TABLES.items():
        parts.append(f"\n## {name}\n\n| column | type | |\n|---|---|---|\n")
        parts += [f"| `{leaf.name}` | {spark_type(leaf)} | {leaf.doc} |\n" for leaf in rows.leaves]
    parts.append("\n## Options\n\n| option | |\n|---|---|\n")
    parts += [f"| `{name}` | {words} |\n" for name, words in OPTIONS.items()]
    for words, rows in (
        ("ranges, of `compare`", COMPARED_RANGE_ROW),
        ("found, of `find`", FOUND_RECORDS_TABLE),
        *((f"{name}, of `stats`", rows) for name, rows in STATS_ROW_BY_TABLE.items()),
    ):
        parts.append(f"\n## Table {words}\n\n{rows.doc}\n\n| column | type | |\n|---|---|---|\n")
        parts += [f"| `{leaf.name}` | {spark_type(leaf)} | {leaf.doc} |\n" for leaf in rows.leaves]
    return "".join(parts)


def explained() -> dict[str, str]:
    """docs/explain: a page a mechanism, and a list of them."""
    facts = replace(load_page_facts(None), is_reproducible=True)
    lines = [f"# How a broker works\n\n{MADE}\nThe pages of `kfmt explain TOPIC`.\n\n"]
    pages = {}
    for page in EXPLAIN_PAGES.values():
        parts = [f"# {page.title}\n\n{MADE}"]
        for part in page.iter_sections(facts):
            if isinstance(part, str):
                parts.append("\n" + "\n".join(textwrap.wrap(part, 100)) + "\n")
            else:
                parts.append("\n```\n" + "\n".join(part) + "\n```\n")
        pages[f"explain/{page.name}.md"] = "".join(parts)
        lines.append(f"- [{page.title}]({page.name}.md)\n")
    return {"explain/README.md": "".join(lines), **pages}


def damages() -> str:
    """docs/damages.md"""
    intro = (
        "Damage that `kfmt check` is tested to detect: `tests/support/matrix.py` creates each case "
        "from real files, and `tests/checks/test_check.py` verifies the finding and its position."
    )
    rows = "".join(
        f"| [`{damage.code}`](findings.md#{damage.code}) | {damage.words} |\n"
        for damage in matrix()
    )
    front = f"# Damage that kfmt detects\n\n{MADE}\n{intro}\n\n"
    return f"{front}| finding | damage |\n|---|---|\n{rows}"


PAGES_BY_NAME = {
    "damages.md": damages,
    "formats.md": formats,
    "json.md": json_contract,
    "commands.md": commands,
    "findings.md": findings,
    "spark-tables.md": spark_tables,
}


def main() -> None:
    known = {f"man/{name}" for name in man_pages()}
    stale = [
        f"man/{page.name} (of no command)"
        for page in (ROOT / "docs/man").iterdir()
        if f"man/{page.name}" not in known
    ]
    pages = {name: page() for name, page in PAGES_BY_NAME.items()}
    pages |= {f"man/{name}": page for name, page in man_pages().items()}
    pages |= explained()
    pages[f"schema/kfmt-{CONTRACT_VERSION}.json"] = format_schema()
    for name, text in pages.items():
        file = ROOT / "docs" / name
        if not file.exists() or file.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
    if stale and "--check" in sys.argv:
        raise SystemExit(f"stale: {', '.join(stale)}; run python -m tools.make_docs")


if __name__ == "__main__":
    main()
