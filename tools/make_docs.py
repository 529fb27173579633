"""Write the pages that follow from the code: formats, commands and their man pages, findings.

python -m tools.make_docs            write them
python -m tools.make_docs --check    only say whether they are up to date
"""

from __future__ import annotations

import os
import sys

import click

from kfmt_cli.cli import MODULES, kfmt
from kfmt_cli.core.layout import Field, Layout
from kfmt_cli.files import index_codes
from kfmt_cli.files.codes import CODES
from kfmt_cli.formats.batch import RECORD, RECORD_BATCH, RECORD_HEADER
from kfmt_cli.formats.checkpoint import CHECKPOINTS
from kfmt_cli.formats.control import CONTROL_RECORD_KEY, END_TXN_MARKER
from kfmt_cli.formats.index import ABORTED_TRANSACTION, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kfmt_cli.formats.legacy import MESSAGE_V0, MESSAGE_V1, TEACHING_MESSAGE_V0
from kfmt_cli.formats.snapshot import PRODUCER_SNAPSHOT, PRODUCER_STATE
from kfmt_cli.spark.request import OPTIONS
from kfmt_cli.spark.tables import TABLES
from tools.kafka import ROOT
from tools.man import HELP, man_pages

PAGES: list[tuple[str, list[Layout]]] = [
    ("Record batch, magic 2", [RECORD_BATCH, RECORD, RECORD_HEADER]),
    ("Control records", [CONTROL_RECORD_KEY, END_TXN_MARKER]),
    ("Messages, magic 0 and 1", [MESSAGE_V0, MESSAGE_V1]),
    ("Indexes", [OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, ABORTED_TRANSACTION]),
    ("Producer snapshot", [PRODUCER_SNAPSHOT, PRODUCER_STATE]),
    ("For teaching", [TEACHING_MESSAGE_V0]),
]
MADE = "<!-- made by tools/make_docs.py -->\n"


def formats() -> str:
    """docs/formats.md"""
    intro = (
        "All integers are big-endian two's complement; varints are base-128 groups, the lowest "
        "first. `varint` and `varlong` are zigzag-encoded."
    )
    parts = [f"# Formats\n\n{MADE}\n{intro}\n"]
    for title, layouts in PAGES:
        parts.append(f"\n## {title}\n")
        for layout in layouts:
            size = f" {layout.size} bytes." if layout.size is not None else ""
            parts.append(
                f"\n### {layout.name}\n\n{layout.doc}{size} Source: `{layout.source}`.\n\n"
            )
            parts.append("| at | field | type | |\n|---|---|---|---|\n")
            at: int | None = 0
            for field in layout.fields:
                place = "" if at is None else str(at)
                parts.append(
                    f"| {place} | `{field.name}` | {field.type.name} | {_words(field)} |\n"
                )
                size_of = field.type.size
                at = None if at is None or size_of is None else at + size_of
            parts += [_bits(field) for field in layout.fields if field.flags]
    parts.append(
        "\n## Checkpoints\n\nText: a line with the version, 0; a line with the number of "
        "entries; a line an entry.\n\n| file | entry | | source |\n|---|---|---|---|\n"
    )
    parts += [
        f"| `{it.name}` | `{' '.join(it.columns)}` | {it.doc} | `{it.source}` |\n"
        for it in CHECKPOINTS.values()
    ]
    return "".join(parts)


def _words(field: Field) -> str:
    unit = f" ({field.unit})" if field.unit else ""
    symbols = ""
    if field.symbols:
        symbols = " " + ", ".join(f"{i} {name}" for i, name in enumerate(field.symbols)) + "."
    return f"{field.doc}{symbols}{unit}"


def _bits(field: Field) -> str:
    assert field.flags is not None
    lines = [f"\nBits of `{field.name}`:\n\n| bits | name | values | |\n|---|---|---|---|\n"]
    for bits in field.flags.bits:
        last = bits.at + bits.width - 1
        places = str(bits.at) if last == bits.at else f"{bits.at}–{last}"
        values = "0 no, 1 yes"
        if bits.symbols:
            values = ", ".join(f"{i} {name}" for i, name in enumerate(bits.symbols))
        lines.append(f"| {places} | `{bits.name}` | {values} | {bits.doc} |\n")
    return "".join(lines)


def commands() -> str:
    """docs/commands.md"""
    os.environ["COLUMNS"] = "100"
    parts = [f"# Commands\n\n{MADE}\n```\n{_help(kfmt, 'kfmt', None)}```\n"]
    context = click.Context(kfmt, info_name="kfmt", help_option_names=HELP)
    for name in MODULES:
        command = kfmt.get_command(context, name)
        assert command is not None
        parts.append(f"\n## {name}\n\n```\n{_help(command, name, context)}```\n")
        if isinstance(command, click.Group):
            within = click.Context(command, info_name=name, parent=context)
            for inner, job in command.commands.items():
                words = _help(job, inner, within)
                parts.append(f"\n### {name} {inner}\n\n```\n{words}```\n")
    return "".join(parts)


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        help_option_names=HELP,
        max_content_width=100,
        terminal_width=100,
    )
    return command.get_help(context) + "\n"


def findings() -> str:
    """docs/findings.md"""
    assert index_codes.INDEX_MISSING.name in CODES  # those of other files are declared, too
    rows = [
        f"| `{code.name}` | {code.severity.value} | {code.meaning} | {code.after_crash or '–'} | "
        f"{code.after_clean_shutdown or '–'} | {code.advice or '–'} |\n"
        for code in sorted(CODES.values(), key=lambda code: code.name)
    ]
    return (
        f"# Findings\n\n{MADE}\nEvery kind of finding. Codes are stable. error: bytes that are "
        "lost or that a broker refuses (exit code 1); warning: a broker lives with it, a person "
        "should know (exit code 1 with `--strict`).\n\n"
        "| code | severity | meaning | after a crash | after a clean shutdown | what to do |"
        "\n|---|---|---|---|---|---|\n" + "".join(rows)
    )


def spark_tables() -> str:
    """docs/spark-tables.md"""
    intro = (
        "All columns are nullable, timestamps are microseconds in UTC. Null is: the format has no "
        "such field, or the file says there is none (a timestamp or producer id of -1)."
    )
    parts = [f"# Tables and options of the data source\n\n{MADE}\n{intro}\n"]
    for name, columns in TABLES.items():
        parts.append(f"\n## {name}\n\n| column | type | |\n|---|---|---|\n")
        parts += [f"| `{it.name}` | {it.type.value} | {it.doc} |\n" for it in columns]
    parts.append("\n## Options\n\n| option | |\n|---|---|\n")
    parts += [f"| `{name}` | {words} |\n" for name, words in OPTIONS.items()]
    return "".join(parts)


PAGES_BY_NAME = {
    "formats.md": formats,
    "commands.md": commands,
    "findings.md": findings,
    "spark-tables.md": spark_tables,
}


def main() -> None:
    stale = []
    pages = {name: page() for name, page in PAGES_BY_NAME.items()}
    pages |= {f"man/{name}": page for name, page in man_pages().items()}
    for name, text in pages.items():
        file = ROOT / "docs" / name
        if not file.exists() or file.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                file.write_text(text)
    if stale and "--check" in sys.argv:
        raise SystemExit(f"stale: {', '.join(stale)}; run python -m tools.make_docs")


if __name__ == "__main__":
    main()
