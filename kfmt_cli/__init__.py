"""kfmt: shows, checks and rescues what is really on a Kafka broker's disk.

    import kfmt_cli

    for finding in kfmt_cli.verify("/var/lib/kafka/orders-0"):
        print(finding.file, finding.code.name, finding.message)

`read_batches`, `read_records`, `read_file` and `verify` read for programs, `scan` and `dataset` for
Polars and DuckDB; `check`, `stat`, `find`, `txn`, `diff`, `retention`, `compaction` and `state`
return the results of the commands with these names, and `salvage`, `build`, `rebuild_index` and
`export` write the same output as the commands (docs/python.md). They are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "1.0.0rc1"
# The public functions, by module. To add one, add its name here and to `__all__`.
_NAMES_BY_MODULE = {
    "kfmt_cli.commands.python.read": ("read_batches", "read_file", "read_records", "verify"),
    "kfmt_cli.commands.python.lazy_tables": ("dataset", "scan"),
    "kfmt_cli.commands.python.writing_commands": ("build", "export", "rebuild_index", "salvage"),
    "kfmt_cli.commands.python.reading_commands": (
        *("check", "compaction", "diff", "find", "retention", "stat", "state", "txn"),
    ),
}
__all__ = [
    "build",
    "check",
    "compaction",
    "dataset",
    "diff",
    "export",
    "find",
    "read_batches",
    "read_file",
    "read_records",
    "rebuild_index",
    "retention",
    "salvage",
    "scan",
    "stat",
    "state",
    "txn",
    "verify",
]

if TYPE_CHECKING:
    from kfmt_cli.commands.python.lazy_tables import dataset, scan
    from kfmt_cli.commands.python.read import read_batches, read_file, read_records, verify
    from kfmt_cli.commands.python.reading_commands import (
        check,
        compaction,
        diff,
        find,
        retention,
        stat,
        state,
        txn,
    )
    from kfmt_cli.commands.python.writing_commands import build, export, rebuild_index, salvage


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module_name, public_names in _NAMES_BY_MODULE.items():
        if name in public_names:
            function: object = getattr(import_module(module_name), name)
            return function
    if name == "errors":
        return import_module(f"{__name__}.errors")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
