"""The commits of a table: `_kfmt/commits/N.json`, and what it consists of: `_kfmt/manifest`.

A commit is one new file, so that it is there or not, and no two runs make the same one. It names
the parts of the manifest, which have the inputs and files of each bundle; it writes one part, with
its changes. `_kfmt/manifest.json` names the parts of the last commit whose files are in place, and
these files: they are few, while there may be a million inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

from kfmt_cli.arrow.export.output import get_json, names_in, put_json
from kfmt_cli.errors import InputError, OutputError
from kfmt_cli.spark.lake import parts
from kfmt_cli.spark.lake.parts import Part, values_in

VERSION = 2  # of the manifest


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of a table after a run."""

    number: int = 0
    mode: str = ""
    inputs: tuple[str, ...] = ()
    """The paths of the run."""
    topics: tuple[str, ...] = ()
    """The topics of the run; empty for all."""
    parts: tuple[Part, ...] = ()
    """The files under `_kfmt/manifest` with the bundles that the table consists of."""
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
    lists = {name: tuple(found[name]) for name in ("inputs", "topics")}
    named = tuple(Part(**part) for part in found["parts"])
    return Commit(**{**found, **lists, "parts": named})


def bundles_of(to: str, known: Commit) -> dict[str, list[dict[str, Any]]]:
    """The bundles after a commit, named as their results under `_kfmt/done`, and the files of each;
    raises InputError."""
    bundles: dict[str, list[dict[str, Any]]] = {}
    for name, about in values_in(_manifest(to), known.parts):
        if about is None:
            bundles.pop(name, None)
        else:
            bundles[name] = about["outputs"]
    return bundles


def with_changes(to: str, before: Commit, changes: Iterable[tuple[str, Any]]) -> Commit:
    """Write the manifest of the next commit; raises OutputError. changes: bundles with their inputs
    and files, or None."""
    number = before.number + 1
    made = parts.appended(_manifest(to), before.parts, number, changes)
    return replace(before, number=number, parts=made)


def publish(to: str, known: Commit, files: Iterable[dict[str, Any]]) -> None:
    """Show readers the manifest of a commit, and all of its files; raises OutputError."""
    names = [f"manifest/{part.name}" for part in known.parts]
    shown = {"version": VERSION, "commit": known.number, "parts": names, "outputs": list(files)}
    put_json(f"{_manifest(to)}.json", shown)


def sweep(to: str, known: Commit) -> None:
    """Delete the parts of the manifest that a commit does not name."""
    parts.sweep(_manifest(to), known.parts)


def _manifest(to: str) -> str:
    return f"{to}/_kfmt/manifest"


def commit(to: str, made: Commit) -> None:
    """Make a commit; raises OutputError if there is one with its number."""
    folder = f"{to}/_kfmt/commits"
    name = _name(made.number)
    if name in names_in(folder):
        raise OutputError(f"{folder}/{name}: another job already wrote this commit")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    put_json(f"{folder}/{name}", {**asdict(made), "time": now})


def _name(number: int) -> str:
    return f"{number:010}.json"
