"""Write the pages that are generated from code: formats, commands, man pages, findings.

python -m tools.make_docs            write them
python -m tools.make_docs --check    only check whether they are up to date
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace

import click

from kfmt_cli.cli import MODULE_BY_COMMAND, kfmt
from kfmt_cli.commands.contract import (
    distinguishing_member,
    iter_contract_sections,
    variants_by_type_name,
)
from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES
from kfmt_cli.commands.explain.pages.page import load_page_facts
from kfmt_cli.commands.format.command import iter_format_chapters
from kfmt_cli.commands.format.json_schema import format_json_schema
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.disk import kinds
from kfmt_cli.disk.kinds.kind import FileKind
from kfmt_cli.formats.checkpoint import CHECKPOINTS
from kfmt_cli.rows.column import LOCATION_COLUMNS, Column, ColumnKind, RowType
from kfmt_cli.rows.documents import COMPARED_RANGE_ROW, STATS_ROW_BY_TABLE
from kfmt_cli.rows.json_schemas import (
    CONTRACT_VERSION,
    ENUM_BY_MEMBER,
    SCHEMA_BY_MEMBER,
    JsonSchema,
)
from kfmt_cli.rows.table_types import FOUND_RECORDS_TABLE, TABLES
from kfmt_cli.rows.types.format_entries import describe_size, iter_format_entries
from kfmt_cli.spark.source_options import OPTION_DESCRIPTIONS
from kfmt_cli.spark.tables import spark_type
from tests.support.matrix import matrix
from tools.kafka import ROOT
from tools.man import man_pages

GENERATED_MARK = "<!-- made by tools/make_docs.py -->\n"
HELP_COLUMNS = 80  # of a terminal, and of a page on a narrow screen


def formats() -> str:
    """docs/formats.md"""
    intro = (
        "All integers are big-endian two's complement; varints are base-128, least significant "
        "group first. `varint` and `varlong` are zigzag-encoded."
    )
    chunks = [f"# Formats\n\n{GENERATED_MARK}\n{intro}\n"]
    for chapter in iter_format_chapters():
        chunks.append(f"\n## {chapter.title}\n")
        chunks += [_format(layout) for layout in chapter.layouts]
    chunks.append(
        "\n## Files\n\nThe name of a file determines its kind. Files that a broker has finished "
        "with or not yet completed end in .deleted, .cleaned, .swap, .part or .tmp.\n\n"
        "| kind | names | belongs to a | rows |\n|---|---|---|---|\n"
    )
    for kind in kinds.KINDS:
        row_types = ", ".join(dict.fromkeys(f"`{type_.name}`" for type_ in kind.row_types))
        patterns = ", ".join(f"`{text}`" for text in kind.name_patterns)
        chunks.append(f"| `{kind.name}` | {patterns} | {kind.level.value} | {row_types} |\n")
    chunks += [
        _row_type(row_type) for kind in kinds.KINDS for row_type in _row_types_without_layout(kind)
    ]
    return "".join(chunks)


def _row_types_without_layout(kind: FileKind) -> Iterator[RowType]:
    """The rows of a kind that no Layout on this page describes."""
    field_names = {
        field.name
        for chapter in iter_format_chapters()
        for layout in chapter.layouts
        for field in layout.fields
    }
    if kind.has_batches or kind.names == frozenset(CHECKPOINTS):
        return
    for row_type in kind.row_types:
        if {leaf.name for leaf in row_type.leaves} - field_names - {"position", "offset"}:
            yield row_type


def _row_type(row_type: RowType) -> str:
    lines = [f"\n### `{row_type.name}`\n\n{row_type.doc}\n\n| column | |\n|---|---|\n"]
    lines += [f"| `{leaf.name}` | {leaf.doc} |\n" for leaf in row_type.leaves]
    return "".join(lines)


def _format(layout: Layout) -> str:
    size = f" {describe_size(layout).capitalize()}." if describe_size(layout) else ""
    lines = [f"\n### {layout.name}\n\n{layout.doc}{size} Source: `{layout.source}`.\n\n"]
    is_versioned = layout.versions is not None
    heading = "| field | type | versions | |" if is_versioned else "| at | field | type | |"
    lines.append(f"{heading}\n|---|---|---|---|\n")
    for entry in iter_format_entries(layout):
        name, kind = f"`{'.'.join(entry.path)}`", entry.bits or entry.type
        cells = (
            [name, kind, entry.versions]
            if is_versioned
            else ["" if entry.start is None else str(entry.start)]
        )
        cells += [] if is_versioned else [name, kind]
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
        f"{_types_with_several_shapes()}. The schema has them as `oneOf`.\n\n"
        "Code generators turn it into types for other languages: "
        "[examples/typescript](../examples/typescript/findings.ts) prints the findings of `kfmt "
        "check --json` with types made by json-schema-to-typescript."
    )
    chunks = [f"# JSON\n\n{GENERATED_MARK}\n{intro}\n"]
    for section in iter_contract_sections():
        chunks.append(f"\n## {section.title}\n")
        chunks += [_object(type_) for type_ in section.row_types]
    return "".join(chunks)


def _types_with_several_shapes() -> str:
    """The types with several shapes, and the members that distinguish them."""
    shapes_by_type = {
        name: shapes for name, shapes in variants_by_type_name().items() if len(shapes) > 1
    }
    return ", ".join(
        f"`{name}` ({' or '.join(f'`{distinguishing_member(shape, shapes)}`' for shape in shapes)})"
        for name, shapes in shapes_by_type.items()
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


def _object(row_type: RowType) -> str:
    lines = [f"\n### `{row_type.name}`\n\n{row_type.doc}\n"]
    if row_type.columns:
        lines.append("\n| member | type | |\n|---|---|---|\n")
    if row_type.location_source.has_location and "file" not in row_type.leaf_by_name:
        lines += _location_members()
    for column in row_type.columns:
        lines.append(_member(column, ""))
        if row_type.location_source.has_location and column.name == "file":
            lines += _location_members()
        lines += [
            _member(inner, f"{column.name}.")
            for inner in column.members
            if column.kind is ColumnKind.GROUP
        ]
    return "".join(lines)


def describe_type(column: Column) -> str:
    """The type of a member, for readers."""
    if column.kind is ColumnKind.TEXT and column.name in ENUM_BY_MEMBER:
        return "one of " + ", ".join(f"`{value}`" for value in ENUM_BY_MEMBER[column.name])
    if column.kind is not ColumnKind.JSON:
        return _KINDS[column.kind]
    return _describe_shape(SCHEMA_BY_MEMBER[column.name])


def _describe_shape(schema: JsonSchema) -> str:
    """A JSON schema, for readers."""
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        return f"list of {_describe_shape(schema['items'])}"
    if kind == "object" and "properties" in schema:
        return f"object with {', '.join(f'`{name}`' for name in schema['properties'])}"
    if kind == "object":
        return "object"
    return {"integer": "integer", "string": "text"}.get(str(kind), "any JSON")


def _location_members() -> Iterator[str]:
    for name, description in LOCATION_COLUMNS.items():
        kind = "integer" if name == "partition" else "text"
        yield f"| `{name}` | {kind}, may be null | {description} |\n"


def _member(column: Column, prefix: str) -> str:
    kind = describe_type(column)
    kind += ", may be null" if column.presence_column else ""
    kind += ", may be absent" if column.present_if else ""
    return f"| `{prefix}{column.name}` | {kind} | {column.doc} |\n"


def commands() -> str:
    """docs/commands.md"""
    os.environ["COLUMNS"] = str(HELP_COLUMNS)
    chunks = [f"# Commands\n\n{GENERATED_MARK}\n```\n{_help(kfmt, 'kfmt', None)}```\n"]
    context = click.Context(kfmt, info_name="kfmt", **kfmt.context_settings)
    for name in MODULE_BY_COMMAND:
        command = kfmt.get_command(context, name)
        assert command is not None
        chunks.append(f"\n## {name}\n\n```\n{_help(command, name, context)}```\n")
        if isinstance(command, click.Group):
            group_context = click.Context(command, info_name=name, parent=context)
            for subcommand_name in command.list_commands(group_context):
                subcommand = command.get_command(group_context, subcommand_name)
                assert subcommand is not None
                help_text = _help(subcommand, subcommand_name, group_context)
                chunks.append(f"\n### {name} {subcommand_name}\n\n```\n{help_text}```\n")
    return "".join(chunks)


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    # click shortens the lines of a group's commands to the width.
    columns = 100 if isinstance(command, click.Group) else HELP_COLUMNS
    widths = dict.fromkeys(("max_content_width", "terminal_width"), columns)
    settings = {**command.context_settings, **widths}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    return command.get_help(context) + "\n"


def findings() -> str:
    """docs/findings.md: the page in the package."""
    title, _, text = (ROOT / "kfmt_cli/findings/findings.md").read_text().partition("\n\n")
    return f"{title}\n\n{GENERATED_MARK}\n{text}"


def spark_tables() -> str:
    """docs/spark-tables.md"""
    intro = (
        "All columns are nullable; timestamps are microseconds in UTC. Null means that the format "
        "has no such field or the file has no value (a timestamp or producer id of -1)."
    )
    chunks = [f"# Tables and options of the data source\n\n{GENERATED_MARK}\n{intro}\n"]
    for name, row_type in TABLES.items():
        chunks.append(f"\n## {name}\n\n| column | type | |\n|---|---|---|\n")
        chunks += [
            f"| `{leaf.name}` | {spark_type(leaf)} | {leaf.doc} |\n" for leaf in row_type.leaves
        ]
    chunks.append("\n## Options\n\n| option | |\n|---|---|\n")
    chunks += [f"| `{name}` | {text} |\n" for name, text in OPTION_DESCRIPTIONS.items()]
    for text, row_type in (
        ("ranges, of `compare`", COMPARED_RANGE_ROW),
        ("found, of `find`", FOUND_RECORDS_TABLE),
        *((f"{name}, of `stats`", row_type) for name, row_type in STATS_ROW_BY_TABLE.items()),
    ):
        chunks.append(
            f"\n## Table {text}\n\n{row_type.doc}\n\n| column | type | |\n|---|---|---|\n"
        )
        chunks += [
            f"| `{leaf.name}` | {spark_type(leaf)} | {leaf.doc} |\n" for leaf in row_type.leaves
        ]
    return "".join(chunks)


def explain_pages() -> dict[str, str]:
    """docs/explain: a page for each mechanism, and a list of the pages."""
    facts = replace(load_page_facts(None), is_reproducible=True)
    lines = [f"# How a broker works\n\n{GENERATED_MARK}\nThe pages of `kfmt explain TOPIC`.\n\n"]
    pages = {}
    for page in EXPLAIN_PAGES.values():
        chunks = [f"# {page.title}\n\n{GENERATED_MARK}"]
        for section in page.iter_sections(facts):
            if isinstance(section, str):
                chunks.append("\n" + "\n".join(textwrap.wrap(section, 100)) + "\n")
            else:
                chunks.append("\n```\n" + "\n".join(section) + "\n```\n")
        pages[f"explain/{page.name}.md"] = "".join(chunks)
        lines.append(f"- [{page.title}]({page.name}.md)\n")
    return {"explain/README.md": "".join(lines), **pages}


def damages() -> str:
    """docs/damages.md"""
    intro = (
        "Damage that `kfmt check` is tested to detect: `tests/support/matrix.py` creates each case "
        "from real files, and `tests/checks/test_check.py` verifies the finding and its position."
    )
    rows = "".join(
        f"| [`{damage.code}`](findings.md#{damage.code}) | {damage.description} |\n"
        for damage in matrix()
    )
    heading = f"# Damage that kfmt detects\n\n{GENERATED_MARK}\n{intro}\n\n"
    return f"{heading}| finding | damage |\n|---|---|\n{rows}"


PAGES_BY_NAME = {
    "damages.md": damages,
    "formats.md": formats,
    "json.md": json_contract,
    "commands.md": commands,
    "findings.md": findings,
    "spark-tables.md": spark_tables,
}


def main() -> None:
    man_names = {f"man/{name}" for name in man_pages()}
    stale = [
        f"man/{page.name} (of no command)"
        for page in (ROOT / "docs/man").iterdir()
        if f"man/{page.name}" not in man_names
    ]
    pages = {name: page() for name, page in PAGES_BY_NAME.items()}
    pages |= {f"man/{name}": page for name, page in man_pages().items()}
    pages |= explain_pages()
    pages[f"schema/kfmt-{CONTRACT_VERSION}.json"] = format_json_schema()
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
