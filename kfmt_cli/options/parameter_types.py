"""Types of values on the command line, and of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kfmt_cli.broker.version import version_from_option
from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.urls import normalize_path, strip_file_scheme

if TYPE_CHECKING:
    _IntType = click.ParamType[int]
    _TextChoice = click.Choice[str]
else:  # not generic in every version of click
    _IntType = click.ParamType
    _TextChoice = click.Choice


class ByteSizeType(_IntType):
    """A number of bytes, with K, M or G for powers of 1024."""

    name = "bytes"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        digits = value.upper().removesuffix("B").removesuffix("I")
        factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(digits[-1:], 1)
        if factor > 1:
            digits = digits[:-1]
        number = parse_int(digits)
        if number is None or number < 1:
            self.fail(f"{value!r} is not a size (examples: 1048576, 64M, 1G)", param, ctx)
        return number * factor


class KafkaVersionType(_TextChoice):
    """A version of Kafka. Those that predictions know are offered; any other has a nearest one."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if version_from_option(value) else super().convert(value, param, ctx)


class TimeType(_IntType):
    """A time in milliseconds since the epoch."""

    name = "text"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        from kfmt_cli.core.times import parse_time_ms

        del ctx
        assert param is not None
        return value if isinstance(value, int) else parse_time_ms(param.opts[0], value)


def parse_input_path(path: str) -> str:
    """A path or URL to read, without its credentials; pasted bytes as they are."""
    from kfmt_cli.core.credentials import strip_credentials
    from kfmt_cli.core.pasted_bytes import is_pasted_text

    return path if is_pasted_text(path) else normalize_path(strip_credentials(path))


def parse_literal_path(path: str) -> str:
    """A path or URL that is not unpacked, without its credentials and without file://."""
    from kfmt_cli.core.credentials import strip_credentials

    if not path:
        raise click.BadParameter("a path cannot be empty")
    return strip_file_scheme(strip_credentials(path))
