"""A log whose blocks come with what is wrong with the headers of their batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.registry import log_checks
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.findings.finding import in_order
from kfmt_cli.log.block import Block
from kfmt_cli.log.open_log import OpenLog, open_log


def with_headers_checked(blocks: Iterable[Block], checks: list[LogCheck]) -> Iterator[Block]:
    """Blocks in reading order, each with what the checks of headers find added to its findings."""
    for block in blocks:
        found = [finding for check in checks for finding in check.take(block, None)]
        yield replace(block, findings=in_order([*block.findings, *found])) if found else block


@contextmanager
def open_checked(file: Input, read_ahead: bool) -> Iterator[OpenLog]:
    """A log whose blocks come with what is wrong with their headers; raises InputError."""
    with open_log(file, read_ahead) as log:
        checks = log_checks(Scope.HEADERS, log.base_offset)
        yield replace(log, blocks=with_headers_checked(log.blocks, checks))
