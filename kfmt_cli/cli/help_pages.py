"""The help: a first page of a screen, a first screen for each command, and `kfmt help TOPIC`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from kfmt_cli.errors import unknown_name_question

if TYPE_CHECKING:
    from kfmt_cli.cli import LazyCommandGroup

SCREEN_LINES = 24
MAX_EXAMPLES = 4  # on the first screen of a command
SHORT_HELP_KEY = "kfmt.short_help"
SHORT_HELP_OPTION, HELP_OPTION = "-h", "--help"
EXIT_CODES_HELP = (
    "Exit codes: 0 clean; 1 findings of severity error, or a lookup found nothing; 2 usage error; "
    "3 an input could not be read, or output not written; 4 Spark could not start (pipeline), or "
    "kfmt's compiled kernel is incomplete; 130 interrupted. If the output is closed early, for "
    "example by head, the code reflects what was read so far."
)
PATHS_HELP = (
    "PATH is a file, a partition directory, a log directory, an archive of one (.tar, .tar.gz, "
    ".zip, …), a copy of an Aiven tiered storage bucket, a URL, or a path inside any of these. "
    "Inputs are never modified. Commands that read one file also take - for standard input, and "
    "pasted bytes: hex:00…, base64:…, b'…', or the text of xxd, hexdump -C or Wireshark."
)
TIMES_HELP = (
    "TIME is milliseconds since the epoch, ISO 8601 in UTC unless it names another zone, such as "
    "2026-11-20T15:24, or now, now-90s, now-5m, now-1h, now-7d. Times are shown in UTC."
)
ENVIRONMENT_HELP = (
    "KFMT_KAFKA_VERSION is the default of --kafka-version, KFMT_SCHEMAS that of --schemas, "
    "KFMT_RSM_PRIVATE_KEY that of --rsm-private-key. NO_COLOR turns colours off."
)
OUTPUT_HELP = (
    "--json writes JSON Lines: one object per line, its type first; docs/json.md describes each "
    "type, and kfmt format --json-schema prints the schema. --format csv writes one table. Data "
    "goes to standard output, notes and progress to standard error."
)
HELP_TOPICS = {
    "exit-codes": EXIT_CODES_HELP,
    "paths": PATHS_HELP,
    "times": TIMES_HELP,
    "environment": ENVIRONMENT_HELP,
    "output": OUTPUT_HELP,
}
_FIRST_PAGE = """\
kfmt - what is really on a Kafka broker's disk     (inputs are never modified)

Start here:
  kfmt check DIR       is it damaged, will a broker start, what is lost
  kfmt dump FILE       every field of every batch; --records, --json
  kfmt stat DIR        sizes and counts        kfmt browse DIR      look around
  kfmt salvage DIR TO  copy what is undamaged  kfmt find DIR --key K
"""
_FIRST_COMMANDS = tuple(re.findall(r"kfmt (\w+) [A-Z]", _FIRST_PAGE))
_RARE_COMMANDS = ("partition-of", "request-header", "response-header", "decode-varint")
_LAST_LINES = """
Options:
  --version   Show the versions of kfmt, its JSON and Python.
  -h, --help  Show this page; kfmt help all shows every command.

kfmt COMMAND -h    kfmt help COMMAND|TOPIC|all    PATH: see kfmt help paths
Exit codes: 0 clean; 1 findings of severity error, or a lookup found nothing;
2 usage error; 3 an input could not be read; see kfmt help exit-codes
"""


def first_page(commands_by_section: dict[str, tuple[str, ...]]) -> str:
    """The page that kfmt shows without a command; it fits a screen."""
    lines = [_FIRST_PAGE, "\nMore:\n"]
    for title, names in commands_by_section.items():
        other_names = [name for name in names if name not in (*_FIRST_COMMANDS, *_RARE_COMMANDS)]
        lines.append(f"  {title.lower():<6} {' '.join(other_names)}\n")
    return "".join([*lines, _LAST_LINES]).rstrip("\n")


def wants_short_help(arguments: list[str]) -> bool:
    """Whether the help of a command should fit a screen: with -h, and on a terminal."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if HELP_OPTION in options:
        return sys.stdout is not None and sys.stdout.isatty()
    return SHORT_HELP_OPTION in options


def split_help(text: str) -> tuple[str, list[str], list[str]]:
    """A command's help as its first paragraph, its examples, and the other paragraphs."""
    summary, *paragraphs = text.split("\n\n")
    examples: list[str] = []
    details: list[str] = []
    for paragraph in paragraphs:
        if paragraph.startswith("\b\nExamples:"):
            examples = [line.strip() for line in paragraph.splitlines()[2:]]
        else:
            details.append(paragraph)
    return summary, examples, details


def write_first_screen(
    command: click.Command,
    context: click.Context,
    formatter: click.HelpFormatter,
    options: Iterable[click.Option],
) -> None:
    """Write usage, examples and the most important options, as many as fit a screen."""
    summary, examples, _ = split_help(command.help or "")
    command.format_usage(context, formatter)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(" ".join(summary.split()))
    if examples:
        short_examples = [line for line in examples if len(line) + 2 <= formatter.width]
        shown_examples = short_examples[:MAX_EXAMPLES] or examples[:1]
        formatter.write("\nExamples:\n")
        for line in shown_examples:
            formatter.write(
                "".join(f"  {part}\n" for part in _break_command(line, formatter.width))
            )
    records = [record for option in options if (record := option.get_help_record(context))]
    formatter.write("\nOptions:\n")
    text_lines = formatter.getvalue().split("\n")
    n_used_lines = sum(max(-(-len(line) // formatter.width), 1) for line in text_lines) + 1
    shown_records = records[: max(SCREEN_LINES - n_used_lines, 1)]
    name_width = min(max(len(_short_name(record[0])) for record in shown_records), 28)
    for names, help_text in shown_records:
        line = f"  {_short_name(names):<{name_width}}  {_first_clause(help_text)}"
        formatter.write(f"{_fit(line, formatter.width)}\n")
    n_hidden = len(records) - len(shown_records)
    hidden_text = f"{n_hidden} more options and the details" if n_hidden > 0 else "The details"
    formatter.write(f"\n{hidden_text}: {_help_command(context)}\n")


def _break_command(line: str, width: int) -> list[str]:
    """A command line as lines of a terminal, each but the last with a backslash at its end."""
    import textwrap

    parts = textwrap.wrap(
        line, width - 4, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]


def _help_command(context: click.Context) -> str:
    return f"kfmt help {context.command_path.partition(' ')[2]}"


def _short_name(names: str) -> str:
    """An option's names and value, without a list of choices."""
    return re.sub(r" \[.*\]| INTEGER RANGE", lambda match: " N" if "I" in match[0] else " …", names)


def _first_clause(help_text: str) -> str:
    clause = re.split(r"(?<!e\.g)[.;] |\s+\[", help_text)[0]
    return clause.rstrip(".")


def _fit(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def create_help_command(group: LazyCommandGroup) -> click.Command:
    """The command `help`. group: the commands it explains."""

    def show_help(context: click.Context, topics: tuple[str, ...]) -> int:
        for text in _help_texts(group, context, topics):
            click.echo(text)
        return 0

    return click.Command(
        "help",
        callback=click.pass_context(show_help),
        params=[click.Argument(["topics"], nargs=-1, metavar="[TOPIC|all]")],
        help="Explain a command, a finding, a mechanism or a format; all for every command.\n\n"
        f"Other topics: {', '.join(HELP_TOPICS)}.",
        short_help="Explain a command, a finding or a format.",
    )


def _help_texts(
    group: LazyCommandGroup, context: click.Context, topics: tuple[str, ...]
) -> Iterator[str]:
    from kfmt_cli.cli.first_guesses import FIRST_GUESSES

    parent = context.parent or context
    if not topics:
        yield group.get_help(parent)
        return
    name, *further = topics
    if name == "all":
        yield group.full_help(parent)
    elif (command := group.get_command(parent, name)) is not None:
        command_context = click.Context(command, info_name=name, parent=parent)
        if further and isinstance(command, click.Group):
            name = further[0]
            if (command := command.get_command(command_context, name)) is None:
                raise click.UsageError(f"no such command: {' '.join(topics)!r}", context)
            command_context = click.Context(command, info_name=name, parent=command_context)
        yield command.get_help(command_context)
    elif name in HELP_TOPICS:
        yield "\n".join(_wrapped(HELP_TOPICS[name], parent))
    elif name in FIRST_GUESSES:
        yield FIRST_GUESSES[name]
    else:
        yield from _other_topic(group, parent, name)


def _wrapped(text: str, context: click.Context) -> list[str]:
    import textwrap

    return textwrap.wrap(text, context.make_formatter().width)


def _other_topic(group: LazyCommandGroup, context: click.Context, name: str) -> Iterator[str]:
    """Run `explain` or `format` for a topic that one of them knows."""
    from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES
    from kfmt_cli.commands.format.command import iter_format_chapters
    from kfmt_cli.findings.codes import finding_code_by_name

    codes = finding_code_by_name()
    layouts = [layout.name for chapter in iter_format_chapters() for layout in chapter.layouts]
    command_name = "explain" if name.lower() in (*codes, *EXPLAIN_PAGES) else "format"
    if command_name == "format" and name not in layouts:
        known_names = [*group.list_commands(context), *codes, *EXPLAIN_PAGES, *HELP_TOPICS]
        question = unknown_name_question(name, [*known_names, *layouts])
        topics_text = f"; topics: a command, all, {', '.join(HELP_TOPICS)}"
        raise click.UsageError(f"no help about {name!r}{question or topics_text}", context)
    group.main([command_name, name], prog_name="kfmt", standalone_mode=False)
    yield from ()
