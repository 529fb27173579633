"""Replaces the module `cython` if Cython is not installed and nothing is compiled.

The modules to compile are ordinary Python that uses Cython's names for types and decorators. This
file defines the names they use, without effect: a cast keeps the value, a decorator returns its
function. The compiler does not read this file.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled = False


class _CType:
    """A C type; subscripts of it denote the types of memory views."""

    def __getitem__(self, _: object) -> _CType:
        return self


class _NoGil:
    """`nogil`, which is a decorator and a context manager."""

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
    """The initial value of what is a C variable in compiled code."""
    return value


def cast(_: object, value: Any) -> builtins.int:
    """The value as a Python integer, which has no limits."""
    return builtins.int(value)


def cfunc(function: T) -> T:
    """A decorator that does nothing: uncompiled code has no C functions."""
    return function


cclass = final = inline = cfunc


def boundscheck(_: bool) -> Callable[[T], T]:
    """A decorator that does nothing: Python always checks bounds."""
    return cfunc


def exceptval(*_: object, **__: object) -> Callable[[T], T]:
    """A decorator that does nothing: Python functions raise without a special return value."""
    return cfunc
