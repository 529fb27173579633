"""The commits of a table: `_kfmt/commits/N.json`, each with the whole state.

A commit is one new file, so that it is there or not, and no two runs make the same one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from kfmt_cli.arrow.output import get_json, names_in, put_json
from kfmt_cli.errors import InputError, OutputError


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a table after a run."""

    number: int = 0
    mode: str = ""
    inputs: tuple[str, ...] = ()
    """The paths of the run."""
    topics: tuple[str, ...] = ()
    """The topics of the run; empty for all."""
    state: tuple[str, ...] = ()
    """The files of results under `_kfmt/done` that the table consists of."""
    time: str = ""


def newest(to: str) -> Commit:
    """The last commit of a table; number 0 if there is none. Raises InputError."""
    names = [name for name in names_in(f"{to}/_kfmt/commits") if name.endswith(".json")]
    return numbered(to, int(max(names).removesuffix(".json"))) if names else Commit()


def numbered(to: str, number: int) -> Commit:
    """A commit of a table; raises InputError."""
    if not number:
        return Commit()
    place = f"{to}/_kfmt/commits/{_name(number)}"
    found = get_json(place)
    if found is None:
        raise InputError(f"{place}: not a commit; the table cannot be read without it")
    lists = {name: tuple(found[name]) for name in ("inputs", "topics", "state")}
    return Commit(**{**found, **lists})


def commit(to: str, made: Commit) -> None:
    """Make a commit; raises OutputError if there is one with its number."""
    folder = f"{to}/_kfmt/commits"
    name = _name(made.number)
    if name in names_in(folder):
        raise OutputError(f"{folder}/{name}: another job made this commit")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    put_json(f"{folder}/{name}", {**asdict(made), "time": now})


def _name(number: int) -> str:
    return f"{number:010}.json"
