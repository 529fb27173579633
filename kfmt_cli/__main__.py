"""The process: streams, signals, exit codes."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from pathlib import Path

from kfmt_cli.errors import NO_OUTPUT_MESSAGE, ExitCode, KfmtError, OutputClosed


def main() -> None:
    """Run the command line and leave with its exit code."""
    exit_code = run()
    # Otherwise the interpreter collects garbage among all loaded objects at exit, which takes a
    # tenth of a short command's time.
    if "duckdb" not in sys.modules:  # it reports objects that are not collected
        gc.freeze()
    sys.exit(exit_code)


def run() -> int:
    """Run the command line; returns the exit code."""
    # NumPy would start a thread per core, none of which kfmt uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Few objects live long here, so that frequent garbage collections would only cost time.
    gc.set_threshold(100_000)
    # Signals to stop raise SystemExit, so that unfinished outputs are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(128 + signal.SIGHUP))
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (until the process ends)
    try:
        import click

        from kfmt_cli.cli import kfmt
        from kfmt_cli.core.credentials import redact_credentials

        try:
            exit_code = kfmt.main(prog_name="kfmt", standalone_mode=False)
        except click.exceptions.Abort:
            raise KeyboardInterrupt from None
        except click.ClickException as error:
            message_buffer = io.StringIO()
            error.show(message_buffer)
            click.echo(redact_credentials(message_buffer.getvalue()), err=True, nl=False)
            return error.exit_code
        if sys.stdout is None:  # commands with rows have already failed
            raise KfmtError(NO_OUTPUT_MESSAGE)
        sys.stdout.flush()
        return int(exit_code or 0)
    except OutputClosed as output_closed:
        return _flush_before_exit(output_closed.exit_code)
    except KfmtError as error:
        return _report_error(error)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would only print a traceback
        return _flush_before_exit(ExitCode.INTERRUPTED)
    except OSError as error:  # click's own output on a full disk
        return _report_error(KfmtError(f"cannot write output: {error.strerror}"))


def _report_error(error: KfmtError) -> int:
    from kfmt_cli.core.credentials import redact_credentials
    from kfmt_cli.render.style import escape_unprintable

    try:
        sys.stderr.write(f"kfmt: {escape_unprintable(redact_credentials(str(error)))}\n")
        sys.stderr.flush()
    except OSError:
        pass
    return _flush_before_exit(error.exit_code)


def _flush_before_exit(exit_code: int) -> int:
    """Flush the standard streams, and redirect those that nobody reads any more, so that the
    interpreter reports no error at exit; returns `exit_code`."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return exit_code


if __name__ == "__main__":
    main()
