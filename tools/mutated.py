"""Installs a mutant (tools/mutants.py) in a running interpreter.

A module that is imported later is compiled from the mutated tree. In a module that is already
imported, existing functions get the mutant's code; code that ran at import is not repeated.
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
VARIABLE = "KFMT_MUTANT"  # environment variable: the mutant's file and number, as JSON


class NothingExchangedError(Exception):
    """No existing function has the code that the mutant changes."""


def environment_of(file: str, number: int) -> dict[str, str]:
    """Variables that name the mutant for other processes of the run."""
    return {VARIABLE: json.dumps([file, number])}


def install_from_environment(env: Mapping[str, str] = os.environ, root: Path = ROOT) -> None:
    """Install the mutant that an environment names, if there is one."""
    if VARIABLE in env:
        file, number = json.loads(env[VARIABLE])
        install(root, file, number)


def install(root: Path, file: str, number: int) -> None:
    """Make the interpreter execute a mutant. Raises NothingExchangedError."""
    path = root / file
    source = path.read_text()
    code = compile(mutated(source, number), str(path), "exec", dont_inherit=True)
    name = ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")
    if name in sys.modules:
        exchange(compile(source, str(path), "exec", dont_inherit=True), code)
    else:
        sys.meta_path.insert(0, _Finder(name, code, _all_as_python(path)))


def exchange(old: CodeType, new: CodeType) -> None:
    """Replace the code of every existing function of a module."""
    codes = {_code_key(old_code): new_code for old_code, new_code in _pairs(old, new)}
    n_exchanged = 0
    gc.unfreeze()  # otherwise get_objects() omits frozen objects
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == old.co_filename:
            new_code = codes.get(_code_key(function.__code__))
            if new_code is not None:
                function.__code__ = new_code
                n_exchanged += 1
    gc.freeze()
    if not n_exchanged:
        raise NothingExchangedError(old.co_filename)


def _code_key(code: CodeType) -> tuple[object, ...]:
    return code.co_name, code.co_firstlineno, code.co_linetable


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The old and the new code of each function."""
    new_codes = _inner_codes(new)
    for key, old_codes in _inner_codes(old).items():
        if len(old_codes) == len(new_codes.get(key, ())):  # else the mutant removes it
            for old_code, new_code in zip(old_codes, new_codes[key], strict=True):
                yield old_code, new_code
                yield from _pairs(old_code, new_code)


def _inner_codes(code: CodeType) -> dict[tuple[str, int], list[CodeType]]:
    codes = defaultdict(list)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            codes[constant.co_name, constant.co_firstlineno].append(constant)
    return codes


def _all_as_python(path: Path) -> frozenset[str]:
    """The modules that must run as Python if a compiled one does: all compiled modules, as they
    call each other in C."""
    if not path.with_suffix(".pyi").exists():
        return frozenset()
    package = ".".join(path.parent.relative_to(ROOT).parts)
    return frozenset(f"{package}.{other.stem}" for other in path.parent.glob("*.pyi"))


class _Loader(SourceFileLoader):
    """Loads a module with the mutant's code."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return self._code


class _Finder(MetaPathFinder):
    """Finds the mutant's module, and those that must run as Python with it."""

    def __init__(self, name: str, code: CodeType, as_python: frozenset[str]) -> None:
        self._name, self._code, self._as_python = name, code, as_python

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module, for `import`."""
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
