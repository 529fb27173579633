"""Options of explain."""

from __future__ import annotations

import click

from kfmt_cli.options import completion
from kfmt_cli.options.common import CommonOptions
from kfmt_cli.options.declaration import argument, command_options, option


@command_options(
    "explain",
    "Explain a finding, or how a broker works.",
    common=("format_", "table", "color"),
)
class ExplainOptions(CommonOptions):
    """Explain a finding, or how a broker works.

    CODE is the name of a finding, such as crc-mismatch; the broker behaviour described was observed
    on real brokers. TOPIC is a mechanism, such as retention, explained with the numbers of the
    partition at PATH, or of a bundled sample. Without arguments, lists all of them.

    \b
    Examples:
      kfmt explain
      kfmt explain crc-mismatch
      kfmt explain compaction
      kfmt explain look-up sample_segments/kafka-3.9.1-broker1/orders-0
      kfmt explain timing-wheel --timer 5ms --timer 450ms --at 445ms
    """

    names: tuple[str, ...] = argument(
        "[CODE | TOPIC]... [PATH]",
        default=(),
        nargs=-1,
        shell_complete=completion.complete_pages,
    )
    tick: str = option(default="1ms", help="timing-wheel: duration of one bucket.")
    size: int = option(default=20, type=click.IntRange(2), help="timing-wheel: number of buckets.")
    timers: tuple[str, ...] = option("--timer", default=(), help="timing-wheel: delay of a timer.")
    at: str | None = option(default=None, help="timing-wheel: draw the wheel at this time.")
