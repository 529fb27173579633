"""The command line equivalent to the screen."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kfmt_cli.browse.batch_filter import FLAG_NAMES, BatchFilter
from kfmt_cli.browse.log_search import SearchTerm
from kfmt_cli.render.style import shell_quote


class ViewKind(enum.Enum):
    """The kind of content on the screen."""

    BATCHES = "the batches of a log"
    RECORDS = "the records of a batch"
    FIELDS = "the fields of a batch or a record, and their bytes"
    PAYLOAD = "a record's content"
    HITS = "search results"
    VIEW = "a command's output"


@dataclass(frozen=True, slots=True)
class ViewState:
    """The state of the screen."""

    kind: ViewKind
    path: str = ""
    """The path of the file, as commands accept it."""
    first_offset: int | None = None
    """The first offset of the batches or records shown; None if offsets cannot express them."""
    last_offset: int | None = None
    batch_position: int | None = None
    """The byte at which the selected batch begins."""
    record_offset: int | None = None
    """The offset of the selected record; None if the batch header is selected."""
    batch_filter: BatchFilter = field(default_factory=BatchFilter)
    search_term: SearchTerm | None = None
    command: tuple[str, ...] = ()
    """The command of a view, after `kfmt`."""
    decoding_options: tuple[str, ...] = ()
    """The options that decode keys and values."""


def command_arguments(state: ViewState) -> list[str]:
    """The arguments of the equivalent kfmt command, or of the first if there are several; raises
    UsageError."""
    kind = state.kind
    if kind is ViewKind.VIEW:
        return list(state.command)
    if kind is ViewKind.HITS:
        assert state.search_term is not None
        return ["find", state.path, *state.search_term.find_options[0]]
    if kind is ViewKind.FIELDS:
        return ["hex", state.path, *_location_options(state)]
    if kind is ViewKind.BATCHES:
        producer_id = state.batch_filter.producer_id
        producer_option = [] if producer_id is None else ["--producer-id", str(producer_id)]
        json_option = ["--json"] if _jq_condition(state.batch_filter) else []
        return ["dump", state.path, *_offset_options(state), *producer_option, *json_option]
    json_option = ["--json"] if kind is ViewKind.PAYLOAD else []
    return [
        "dump",
        state.path,
        "--records",
        *_offset_options(state),
        *state.decoding_options,
        *json_option,
    ]


def format_command(state: ViewState) -> str:
    """The equivalent command as typed in a shell."""
    if state.kind is ViewKind.HITS and state.search_term is not None:
        commands = (
            ["kfmt", "find", state.path, *option] for option in state.search_term.find_options
        )
        return "; ".join(" ".join(map(shell_quote, command)) for command in commands)
    command = " ".join(["kfmt", *map(shell_quote, command_arguments(state))])
    condition = _jq_condition(state.batch_filter) if state.kind is ViewKind.BATCHES else ""
    return f"{command} | jq -c {shell_quote(f'select({condition})')}" if condition else command


def _location_options(state: ViewState) -> list[str]:
    if state.record_offset is not None:
        return ["--offset", str(state.record_offset), "--alone"]
    return ["--position", str(state.batch_position or 0)]


def _offset_options(state: ViewState) -> list[str]:
    if state.first_offset is None or state.last_offset is None:
        return []
    if state.first_offset > state.last_offset:
        return []
    return ["--from-offset", str(state.first_offset), "--to-offset", str(state.last_offset)]


def _jq_condition(batch_filter: BatchFilter) -> str:
    """A jq condition for the filters that no option of kfmt covers."""
    conditions = []
    if batch_filter.codec is not None:
        conditions.append(f'.attributes.compression=="{batch_filter.codec}"')
    for name in FLAG_NAMES:
        value = getattr(batch_filter, name)
        if value is not None:
            path = ".crc_valid" if name == "damaged" else f".attributes.{name}"
            is_true = value != (name == "damaged")
            conditions.append(path if is_true else f"({path}|not)")
    return " and ".join(conditions)
