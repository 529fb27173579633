"""What can go wrong, and how the process says so.

KfmtError
├── UsageError       the command was called wrongly                          exit 2
├── InputError       an input could not be read at all                       exit 3
│   ├── ForeignError    it was read, but is not a file of its kind              exit 3
│   └── LostBytesError  some of its bytes cannot be read, others can            exit 3
├── NotFoundError    a lookup found nothing                                  exit 1
├── OutputError      an output could not be written                          exit 3
├── KernelError      the compiled kernel is not whole                         exit 4
├── OutputClosed     the reader closed the output                            the code so far
└── DecodeError      bytes that are not what their Layout says (in `core/layout/location.py`)

Damage inside a readable file is none of these: it becomes findings (`findings/finding.py`).
"""

import enum
from collections.abc import Callable, Iterable


class ExitCode(enum.IntEnum):
    """The exit codes of every command."""

    CLEAN = 0
    FINDINGS = 1
    USAGE = 2
    UNREADABLE = 3
    NO_SESSION = 4
    INTERRUPTED = 130


class KfmtError(Exception):
    """Something that keeps kfmt from going on; its text is for people."""

    exit_code = ExitCode.UNREADABLE


NO_INPUT_MESSAGE = "-: standard input is closed"
NO_OUTPUT_MESSAGE = "cannot write output: standard output is closed"


class UsageError(KfmtError):
    """The command was called wrongly."""

    exit_code = ExitCode.USAGE


def unknown_name_error(kind: str, name: object, choices: Iterable[str]) -> UsageError:
    """The error for a name that is not among those of its kind."""
    return UsageError(f"no {kind} named {name!r}; choose from {', '.join(choices)}")


class SessionError(KfmtError):
    """Spark did not start, or its workers cannot work."""

    exit_code = ExitCode.NO_SESSION


class KernelError(KfmtError):
    """Some of the compiled modules are missing, so that none of them works."""

    exit_code = ExitCode.NO_SESSION


class InputError(KfmtError):
    """An input is missing, not permitted, or not a file of Kafka's.

    file: its path, where one is known. is_missing: no file with this name exists.
    """

    def __init__(self, message: str, *, file: str = "", is_missing: bool = False) -> None:
        super().__init__(message)
        self.file = file
        self.is_missing = is_missing


class UnreadableBytesError(InputError):
    """Some bytes of an input cannot be read, while others can, as on a disk with bad sectors.

    position: the first of them. reason: the reason alone; empty if the words say no place.
    """

    def __init__(self, message: str, position: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.reason = reason


class InputErrorHandler:
    """Give the error of an input that cannot be read to a function, and go on after the block."""

    def __init__(self, on_error: Callable[[InputError], None]) -> None:
        self._on_error = on_error

    def __enter__(self) -> None: ...

    def __exit__(self, error_type: object, error: object, traceback: object) -> bool:
        if isinstance(error, InputError):
            self._on_error(error)
            return True
        return False


class WrongKindError(InputError):
    """The contents of a file show that it is not of the kind that its name says."""


class NotFoundError(KfmtError):
    """What was asked for is not in the input."""

    exit_code = ExitCode.FINDINGS


class OutputError(KfmtError):
    """An output could not be written."""


class OutputClosed(KfmtError):  # noqa: N818 (not an error)
    """The reader closed the output, as `head` does: no reason to complain.

    exit_code: what the run would have ended with by then, 1 after a finding of severity error.
    """

    def __init__(self, exit_code: ExitCode = ExitCode.CLEAN) -> None:
        super().__init__("nobody reads the output any more")
        self.exit_code = exit_code
