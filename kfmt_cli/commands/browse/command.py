"""browse: starts the browser."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.commands.browse.options import BrowseOptions
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.payload_formats import payload_declarations
from kfmt_cli.errors import UsageError


@dataclass(slots=True)
class BrowseCommand:
    """One call of `browse`."""

    run: CommandRun
    options: BrowseOptions

    def execute(self) -> int:
        """Browse some paths; returns the exit code. Raises UsageError, InputError."""
        try:
            import textual  # noqa: F401
        except ImportError:
            raise UsageError("kfmt browse needs Textual: pip install 'kfmt-cli[browse]'") from None
        from kfmt_cli.browse.launch import open_session, run_session

        options = self.options
        session = open_session(
            options.paths or (".",),
            options.as_topic or options.topic,
            payload_declarations(options, options.paths),
            options.decoding_arguments,
            options.decompression_limit,
        )
        return run_session(session, options.theme)
