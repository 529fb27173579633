"""The loops that Cython compiles: decoding, encoding, searching, writing text."""

from kfmt_cli.core.native.compiled import incomplete
from kfmt_cli.errors import KernelError

if (_words := incomplete()) is not None:
    raise KernelError(_words)
