"""Options of explain."""

from __future__ import annotations

from pathlib import Path

import click

from kfmt_cli.cli import completion
from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, parse_input_path
from kfmt_cli.core.integers import parse_int
from kfmt_cli.errors import UsageError


@grouped_command(name="explain", short_help="Explain a finding, or how a broker works.")
@click.argument(
    "names", nargs=-1, metavar="[CODE | TOPIC]... [PATH]", shell_complete=completion.complete_pages
)
@click.option(
    "--tick", default="1ms", show_default=True, help="timing-wheel: duration of one bucket."
)
@click.option(
    "--size",
    type=click.IntRange(2),
    default=20,
    show_default=True,
    help="timing-wheel: number of buckets.",
)
@click.option("--timer", "timers", multiple=True, help="timing-wheel: delay of a timer.")
@click.option("--at", help="timing-wheel: draw the wheel at this time.")
@common_options("format", "color")
def explain(
    names: tuple[str, ...],
    tick: str,
    size: int,
    timers: tuple[str, ...],
    at: str | None,
    common: CommonOptions,
) -> None:
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
    from kfmt_cli.commands.explain.command import ExplainCommand
    from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES

    path = None
    if names and names[-1] not in EXPLAIN_PAGES and ("/" in names[-1] or Path(names[-1]).exists()):
        path, names = names[-1], names[:-1]
        if not names:
            raise UsageError(f"{path} is a path; name the topic to explain with it")
        path = parse_input_path(path)
    run = common.start_run()
    delays_ms = tuple(_parse_duration_ms(timer) for timer in timers) or (5, 130, 450)
    wheel_settings = (
        _parse_duration_ms(tick),
        size,
        delays_ms,
        None if at is None else _parse_duration_ms(at),
    )
    if wheel_settings[0] < 1:
        raise UsageError("--tick: at least 1ms")
    ExplainCommand(run, path, wheel_settings).show_pages(names)


def _parse_duration_ms(text: str) -> int:
    """Parse a duration such as 20, 20ms or 3s into milliseconds; raises UsageError."""
    for unit, unit_ms in (("ms", 1), ("s", 1000), ("", 1)):
        number = parse_int(text.removesuffix(unit)) if text.endswith(unit) else None
        if number is not None and number >= 0:
            return number * unit_ms
    raise UsageError(f"{text!r}: not a duration such as 20ms or 3s")
