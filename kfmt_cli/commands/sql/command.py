"""sql: answers queries about the files under some paths."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.payload_formats import payload_declarations
from kfmt_cli.commands.python.read import require_existing_path
from kfmt_cli.commands.sql.options import SqlOptions
from kfmt_cli.commands.sql.sql_prompt import SqlPrompt
from kfmt_cli.commands.sql.sql_session import SqlSession
from kfmt_cli.disk.input_paths import reject_stdin
from kfmt_cli.disk.path_resolution import prepare_listable_path
from kfmt_cli.errors import ExitCode
from kfmt_cli.writers.output_access import private_like


@dataclass(slots=True)
class SqlCommand:
    """One call of `sql`."""

    run: CommandRun
    options: SqlOptions

    def execute(self) -> ExitCode | None:
        """Run the query, or the statements of standard input, on the existing paths; reports
        missing ones. Raises UsageError."""
        reject_stdin(*self.options.paths)
        existing_paths = []
        for path in self.options.paths:
            with self.run.catch_input_errors():
                existing_paths.append(require_existing_path(prepare_listable_path(path)))
        if not existing_paths:
            return ExitCode.UNREADABLE
        session = SqlSession(
            self.run,
            tuple(existing_paths),
            self.options.decompression_limit,
            self.options.all_replicas,
            self.options.topic,
            payload_declarations(self.options, existing_paths),
        )
        with private_like(existing_paths), closing(session):
            if self.options.query is None:
                SqlPrompt(session).run()
            else:
                session.run_statements(self.options.query)
        return None
