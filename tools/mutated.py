"""Puts a mutant (tools/mutants.py) into a running interpreter.

A module that is imported later is compiled from the mutated tree. Of one that is imported already,
the functions that exist get the mutant's code, in place; what they did at import has been done.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tools.mutants import mutated

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "KFMT_MUTANT"  # of the environment: the mutant's file and number, as JSON


class NothingExchangedError(Exception):
    """No function that exists has the code that the mutant changes."""


def environment_of(file: str, number: int) -> dict[str, str]:
    """What tells other processes of the run which mutant it is about."""
    return {VARIABLE: json.dumps([file, number])}


def put_in(env: Mapping[str, str] = os.environ, root: Path = ROOT) -> None:
    """Put in the mutant that an environment names, if there is one."""
    if VARIABLE in env:
        file, number = json.loads(env[VARIABLE])
        install(root, file, number)


def install(root: Path, file: str, number: int) -> None:
    """Have the interpreter execute a mutant. Raises NothingExchangedError."""
    path = root / file
    source = path.read_text()
    code = compile(mutated(source, number), str(path), "exec", dont_inherit=True)
    name = ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")
    if name in sys.modules:
        exchange(compile(source, str(path), "exec", dont_inherit=True), code)
    else:
        sys.meta_path.insert(0, _Finder(name, code, _all_as_python(path)))


def exchange(old: CodeType, new: CodeType) -> None:
    """Give every function of a module that exists its new code."""
    codes = {_mark(before): after for before, after in _pairs(old, new)}
    found = 0
    gc.unfreeze()  # or what exists is not listed
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == old.co_filename:
            after = codes.get(_mark(function.__code__))
            if after is not None:
                function.__code__ = after
                found += 1
    gc.freeze()
    if not found:
        raise NothingExchangedError(old.co_filename)


def _mark(code: CodeType) -> tuple[object, ...]:
    return code.co_name, code.co_firstlineno, code.co_linetable


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code of each function with what it becomes."""
    theirs = _inner(new)
    for key, codes in _inner(old).items():
        if len(codes) == len(theirs.get(key, ())):  # else it is what the mutant leaves out
            for before, after in zip(codes, theirs[key], strict=True):
                yield before, after
                yield from _pairs(before, after)


def _inner(code: CodeType) -> dict[tuple[str, int], list[CodeType]]:
    found = defaultdict(list)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found[constant.co_name, constant.co_firstlineno].append(constant)
    return found


def _all_as_python(path: Path) -> frozenset[str]:
    """The modules that must run as Python for a compiled one to do so: all of them, as they call
    each other below Python."""
    if not path.with_suffix(".pyi").exists():
        return frozenset()
    package = ".".join(path.parent.relative_to(ROOT).parts)
    return frozenset(f"{package}.{other.stem}" for other in path.parent.glob("*.pyi"))


class _Loader(SourceFileLoader):
    """Gives a module the mutant's code."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self._code


class _Finder(MetaPathFinder):
    """Finds the mutant's module, and those that must be Python because it is."""

    def __init__(self, name: str, code: CodeType, as_python: frozenset[str]) -> None:
        self._name, self._code, self._as_python = name, code, as_python

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What `import` asks."""
        if fullname != self._name and fullname not in self._as_python:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        origin = Path(spec.origin)
        source = str(origin.parent / f"{origin.name.partition('.')[0]}.py")
        spec.origin = source
        spec.loader = (
            _Loader(fullname, source, self._code)
            if fullname == self._name
            else SourceFileLoader(fullname, source)
        )
        return spec
