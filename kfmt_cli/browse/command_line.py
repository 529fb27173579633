"""The command line equivalent to the screen."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kfmt_cli.browse.batch_filter import BatchFilter
from kfmt_cli.browse.log_search import SearchTerm
from kfmt_cli.render.style import quote_for_shell


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

    view_kind: ViewKind
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


def command_arguments(view_state: ViewState) -> list[str]:
    """The arguments of the equivalent kfmt command, or of the first if there are several; raises
    UsageError."""
    view_kind = view_state.view_kind
    if view_kind is ViewKind.VIEW:
        return list(view_state.command)
    if view_kind is ViewKind.HITS:
        assert view_state.search_term is not None
        return ["find", view_state.path, *view_state.search_term.find_options[0]]
    if view_kind is ViewKind.FIELDS:
        return ["hex", view_state.path, *_location_options(view_state)]
    if view_kind is ViewKind.BATCHES:
        filter_options = view_state.batch_filter.dump_options
        return ["dump", view_state.path, *_offset_options(view_state), *filter_options]
    json_option = ["--json"] if view_kind is ViewKind.PAYLOAD else []
    return [
        "dump",
        view_state.path,
        "--records",
        *_offset_options(view_state),
        *view_state.decoding_options,
        *json_option,
    ]


def format_command(view_state: ViewState) -> str:
    """The equivalent command as typed in a shell."""
    if view_state.view_kind is ViewKind.HITS and view_state.search_term is not None:
        argument_lists = (
            ["kfmt", "find", view_state.path, *find_option]
            for find_option in view_state.search_term.find_options
        )
        return "; ".join(" ".join(map(quote_for_shell, command)) for command in argument_lists)
    command = " ".join(["kfmt", *map(quote_for_shell, command_arguments(view_state))])
    is_batches = view_state.view_kind is ViewKind.BATCHES
    condition = view_state.batch_filter.jq_condition if is_batches else ""
    return f"{command} | jq -c {quote_for_shell(f'select({condition})')}" if condition else command


def _location_options(view_state: ViewState) -> list[str]:
    if view_state.record_offset is not None:
        return ["--offset", str(view_state.record_offset), "--alone"]
    return ["--position", str(view_state.batch_position or 0)]


def _offset_options(view_state: ViewState) -> list[str]:
    first_offset, last_offset = view_state.first_offset, view_state.last_offset
    if first_offset is None or last_offset is None or first_offset > last_offset:
        return []
    return ["--from-offset", str(first_offset), "--to-offset", str(last_offset)]
