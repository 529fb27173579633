"""kfmt: shows, checks and rescues what is really on a Kafka broker's disk.

    import kfmt_cli

    for finding in kfmt_cli.verify("/var/lib/kafka/orders-0"):
        print(finding.file, finding.code.name, finding.message)

`read_batches`, `read_records`, `read_file` and `verify` are for programs, see docs/python.md; they
are imported when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["read_batches", "read_file", "read_records", "verify"]

if TYPE_CHECKING:
    from kfmt_cli.commands.read import read_batches, read_file, read_records, verify


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kfmt_cli.commands import read

    found: object = getattr(read, name)
    return found
