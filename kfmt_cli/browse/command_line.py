"""The command line equivalent to the screen."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kfmt_cli.browse.log_search import SoughtText
from kfmt_cli.browse.wanted_batches import FLAG_NAMES, WantedBatches
from kfmt_cli.render.style import shell_quoted


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

    shown: ViewKind
    name: str = ""
    """The file, as commands take it."""
    first_offset: int | None = None
    """The first offset of the batches or records shown; None if offsets cannot express them."""
    last_offset: int | None = None
    position: int | None = None
    """The byte at which the selected batch begins."""
    offset: int | None = None
    """The offset of the selected record; None if the batch header is selected."""
    wanted: WantedBatches = field(default_factory=WantedBatches)
    sought: SoughtText | None = None
    command: tuple[str, ...] = ()
    """The command of a view, after `kfmt`."""
    decoding: tuple[str, ...] = ()
    """The options that decode keys and values."""


def command_of(state: ViewState) -> list[str]:
    """The arguments of the equivalent kfmt command, or of its first part; raises UsageError."""
    shown = state.shown
    if shown is ViewKind.VIEW:
        return list(state.command)
    if shown is ViewKind.HITS:
        assert state.sought is not None
        return ["find", state.name, *state.sought.options[0]]
    if shown is ViewKind.FIELDS:
        return ["hex", state.name, *_place(state)]
    if shown is ViewKind.BATCHES:
        producer = state.wanted.producer_id
        more = [] if producer is None else ["--producer-id", str(producer)]
        json = ["--json"] if _jq(state.wanted) else []
        return ["dump", state.name, *_range(state), *more, *json]
    json = ["--json"] if shown is ViewKind.PAYLOAD else []
    return ["dump", state.name, "--records", *_range(state), *state.decoding, *json]


def command_text(state: ViewState) -> str:
    """The equivalent command as typed in a shell."""
    if state.shown is ViewKind.HITS and state.sought is not None:
        calls = (["kfmt", "find", state.name, *option] for option in state.sought.options)
        return "; ".join(" ".join(map(shell_quoted, call)) for call in calls)
    words = " ".join(["kfmt", *map(shell_quoted, command_of(state))])
    jq = _jq(state.wanted) if state.shown is ViewKind.BATCHES else ""
    return f"{words} | jq -c {shell_quoted(f'select({jq})')}" if jq else words


def _place(state: ViewState) -> list[str]:
    if state.offset is not None:
        return ["--offset", str(state.offset), "--alone"]
    return ["--position", str(state.position or 0)]


def _range(state: ViewState) -> list[str]:
    if state.first_offset is None or state.last_offset is None:
        return []
    if state.first_offset > state.last_offset:
        return []
    return ["--from-offset", str(state.first_offset), "--to-offset", str(state.last_offset)]


def _jq(wanted: WantedBatches) -> str:
    """A jq condition for the filters that no option of kfmt covers."""
    said = []
    if wanted.codec is not None:
        said.append(f'.attributes.compression=="{wanted.codec}"')
    for name in FLAG_NAMES:
        value = getattr(wanted, name)
        if value is not None:
            path = ".crc_valid" if name == "damaged" else f".attributes.{name}"
            is_true = value != (name == "damaged")
            said.append(path if is_true else f"({path}|not)")
    return " and ".join(said)
