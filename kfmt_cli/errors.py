"""The errors of kfmt, and the exit codes that they lead to.

KfmtError
├── UsageError                the command was used incorrectly                 exit 2
├── InputError                an input could not be read at all                exit 3
│   ├── WrongFileKindError    it was read, but is not a file of its kind       exit 3
│   └── UnreadableBytesError  some of its bytes cannot be read, others can     exit 3
├── NotFoundError             a lookup found nothing                           exit 1
├── OutputError               an output could not be written                   exit 3
├── SessionError              Spark did not start, or its workers cannot work  exit 4
├── KernelError               the compiled kernel is incomplete                exit 4
├── OutputClosed              the reader closed the output                     the code so far
└── DecodeError               bytes do not match their Layout (in `core/layout/location.py`)

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
    """An error that ends what kfmt is doing; its text is for people."""

    exit_code = ExitCode.UNREADABLE


MAX_SUGGESTIONS = 8  # names in a question
MIN_CONTAINED_CHARACTERS = 3  # of a name that others contain
NO_INPUT_MESSAGE = "-: standard input is closed"
NO_OUTPUT_MESSAGE = "cannot write output: standard output is closed"


class UsageError(KfmtError):
    """The command was used incorrectly."""

    exit_code = ExitCode.USAGE


def unknown_name_error(noun: str, name: object, known_names: Iterable[str]) -> UsageError:
    """The error for an unknown name. noun: a noun for such names. known_names: the known names."""
    names = list(known_names)
    question = unknown_name_question(str(name), names)
    return UsageError(f"no {noun} named {name!r}; choose from {', '.join(names)}{question}")


def unknown_name_question(
    name: str,
    known_names: Iterable[str],
    otherwise: str = "",
    display: Callable[[str], str] = str,
) -> str:
    """The end of a message about an unknown name: a question that has the most similar known names,
    or else those that contain it; `otherwise` if there are none.

    Commands, options, paths, topics, codes, columns and formats all use it. display: how a name is
    shown.
    """
    from difflib import get_close_matches

    names = list(dict.fromkeys(known_names))
    lower_name = name.lower()
    name_by_lower = {known_name.lower(): known_name for known_name in reversed(names)}
    similar_names = [
        name_by_lower[match] for match in get_close_matches(lower_name, list(name_by_lower), 3, 0.6)
    ]
    if not similar_names and len(lower_name) >= MIN_CONTAINED_CHARACTERS:
        similar_names = [known_name for known_name in names if lower_name in known_name.lower()]
    if similar_names:
        *first_names, last_name = map(display, similar_names[:MAX_SUGGESTIONS])
        return f"; did you mean {', '.join(first_names)}{' or ' * bool(first_names)}{last_name}?"
    return otherwise


class SessionError(KfmtError):
    """Spark did not start, or its workers cannot work."""

    exit_code = ExitCode.NO_SESSION


class KernelError(KfmtError):
    """Some of the compiled modules are missing, so that none of them works."""

    exit_code = ExitCode.NO_SESSION


class InputError(KfmtError):
    """An input is missing, not permitted, or not a Kafka file.

    file: its path, if known. is_missing: no file with this name exists.
    """

    def __init__(self, message: str, *, file: str = "", is_missing: bool = False) -> None:
        super().__init__(message)
        self.file = file
        self.is_missing = is_missing


class DeletionMessage(str):
    """The message about a directory that a broker deleted after its parent was listed."""

    __slots__ = ()


class UnreadableBytesError(InputError):
    """Some bytes of an input cannot be read, while others can, as on a disk with bad sectors.

    position: the first of them. reason: the message without the location; empty if `message` has
    no location.
    """

    def __init__(self, message: str, position: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.reason = reason


class InputErrorHandler:
    """Context manager that passes an InputError to `on_error` and continues after the block."""

    def __init__(self, on_error: Callable[[InputError], None]) -> None:
        self._on_error = on_error

    def __enter__(self) -> None: ...

    def __exit__(self, error_type: object, error: object, traceback: object) -> bool:
        if isinstance(error, InputError):
            self._on_error(error)
            return True
        return False


class WrongFileKindError(InputError):
    """A file's contents show that it is not of the kind that its name implies."""


class NotFoundError(KfmtError):
    """A lookup found nothing in the input."""

    exit_code = ExitCode.FINDINGS


class OutputError(KfmtError):
    """An output could not be written."""


class OutputClosed(KfmtError):  # noqa: N818 (not an error)
    """The reader closed the output, as `head` does; this is not reported.

    exit_code: the exit code of the run so far, such as 1 after a finding of severity error.
    """

    def __init__(self, exit_code: ExitCode = ExitCode.CLEAN) -> None:
        super().__init__("the output is no longer read")
        self.exit_code = exit_code
