"""Options of request-header and response-header."""

from __future__ import annotations

import click
from click.core import ParameterSource

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import Common, common
from kfmt_cli.errors import UsageError


def _if_given(ctx: click.Context, param: click.Parameter, value: bool) -> bool | None:
    """None if neither was given: click 8.2 turns a default of None into False."""
    given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    return value if given else None


_framed = click.option(
    "--size-prefixed/--no-size",
    "framed",
    default=None,
    callback=_if_given,
    help="Whether each message has a size prefix. [default: detected]",
)


@command(name="request-header", short_help="Decode request headers.")
@click.argument("source", metavar="HEX|FILE")
@_framed
@common("wide", "format", "color")
def request_header(
    source: str,
    framed: bool | None,
    common: Common,
) -> None:
    """Decode request headers as sent to a broker.

    The argument is hex digits, a file of hex digits, or a binary file such as a captured stream; -
    is standard input. Several size-prefixed requests are listed one per line. The header version
    follows from the API and its version.

    \b
    Examples:
      kfmt request-header 0000001b00120003000000070006636c69656e7400056b666d7404302e3100
      kfmt request-header 0003000900000001000361646d00 --no-size --json
    """
    from kfmt_cli.commands.protocol_headers.command import REQUEST, read_argument, requests, show

    run = common.run()
    with run.complaining():
        name, data = read_argument(source)
        show(run, name, data, list(requests(data, framed)), REQUEST)


@command(name="response-header", short_help="Decode response headers.")
@click.argument("source", metavar="HEX|FILE")
@click.option("--api", help="API of the request, by name or number.")
@click.option("--api-version", type=click.IntRange(min=0), help="API version.")
@_framed
@common("wide", "format", "color")
def response_header(
    source: str,
    api: str | None,
    api_version: int | None,
    framed: bool | None,
    common: Common,
) -> None:
    """Decode response headers as sent by a broker.

    A response does not identify its request or its header version, so pass them as options. Without
    them, kfmt assumes the oldest header, which has only a correlation id.

    \b
    Examples:
      kfmt response-header 00000007
      kfmt response-header 0000000700 --api Metadata --api-version 12
    """
    from kfmt_cli.commands.protocol_headers.command import (
        RESPONSE,
        api_of,
        read_argument,
        responses,
        show,
    )

    if (api is None) != (api_version is None):
        raise UsageError("--api and --api-version must be given together")
    asked = api_of(api)
    if asked is not None and api_version is not None and api_version > asked.last:
        raise UsageError(f"{asked.name} has versions up to {asked.last}, not {api_version}")
    version = 0 if asked is None or api_version is None else asked.response_header(api_version)
    run = common.run()
    with run.complaining():
        name, data = read_argument(source)
        show(run, name, data, list(responses(data, framed, version)), RESPONSE)
