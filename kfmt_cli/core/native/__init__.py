"""The loops that Cython compiles: they decode, encode, search and write text."""

from kfmt_cli.core.native.build_state import incomplete_message
from kfmt_cli.errors import KernelError

if (_message := incomplete_message()) is not None:
    raise KernelError(_message)
