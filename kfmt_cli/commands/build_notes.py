"""build of a file in the teaching layout."""

from __future__ import annotations

from kfmt_cli.commands.run import Run
from kfmt_cli.errors import InputError
from kfmt_cli.render.style import count
from kfmt_cli.writing.build.notes import write_notes
from kfmt_cli.writing.output import staged

FILE = "notes-v0.bin"


def build_notes(run: Run, source: str, destination: str, force: bool) -> None:
    """Write DST/notes-v0.bin from lines; raises InputError, UsageError, OutputError."""
    n_messages = 0
    with staged(destination, force) as staging:
        run.left_over(staging.left_over)
        file = staging.file(FILE)
        try:
            for message in write_notes(source):
                file.write(message)
                n_messages += 1
            if not n_messages:
                raise InputError(f"{source}: no message in it")
            file.close()
        finally:
            file.abandon()
    run.sink.remark(f"{count(n_messages, 'message')} in {destination}/{FILE}", "")
    run.sink.flush()
