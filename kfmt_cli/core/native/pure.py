"""Takes the place of Cython's own module where Cython is not installed and nothing is compiled.

The compiled modules are ordinary Python that uses Cython's names for types and decorators. This
file has those names that they use, and none of them does anything: a type takes a value as it is, a
decorator returns its function. The compiler never looks into this file.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled = False


class _CType:
    """A C type; a subscript of it is a memory view's type."""

    def __getitem__(self, _: object) -> _CType:
        return self


class _NoGil:
    """`nogil` is a decorator and a context manager."""

    def __call__(self, function: T) -> T:
        return function

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


nogil = _NoGil()
bint = const = int = longlong = p_uchar = Py_ssize_t = _CType()  # noqa: A001 (Cython's name)
uchar = uint = ulonglong = void = longlong


def declare(_: object, value: T) -> T:
    """The value of a variable that is a C variable when it is compiled."""
    return value


def cast(_: object, value: Any) -> builtins.int:
    """The value as Python's integer, which takes every value."""
    return builtins.int(value)


def cfunc(function: T) -> T:
    """The function itself: there are no C functions here."""
    return function


cclass = final = inline = cfunc


def boundscheck(_: bool) -> Callable[[T], T]:
    """A decorator that does nothing: Python checks always."""
    return cfunc


def exceptval(*_: object, **__: object) -> Callable[[T], T]:
    """A decorator that does nothing: Python's functions raise without a value that says so."""
    return cfunc
