"""Builds the compiled modules; without a compiler the same sources run interpreted."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MODULES = ("kernel", "encode", "scan", "hash_table", "text", "quote", "cell", "bound", "emit")
# Code for memory views that the modules share, so that it is compiled once and not in each of them.
SHARED = "kfmt_cli.core.native._cyutility"
SOURCES = Path("kfmt_cli/core/native")
# A line that says why there are no extensions, for `kfmt --version`.
NOT_COMPILED = "not_compiled.txt"
JOBS = os.cpu_count() or 1
NO_COMPILER = """\
kfmt: {reason}
kfmt: its modules are installed as Python, which gives the same output many times slower.
"""


class AllOrNone(build_ext):
    """Builds the extensions side by side and leaves all of them out when one cannot be built.

    They call each other below Python, so a compiled one cannot work with an interpreted one.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or JOBS
        # The sources of a clone are compiled too, so that whatever runs there is as fast.
        self.inplace = True

    def build_extensions(self) -> None:
        super().build_extensions()
        built = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        told = Path(self.build_lib) / SOURCES / NOT_COMPILED
        told.unlink(missing_ok=True)
        if all(path.exists() for path in built):
            return
        for path in built:
            path.unlink(missing_ok=True)
        sys.stderr.write(NO_COMPILER.format(reason="no C compiler that works was found"))
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text("no C compiler when it was installed\n")

    def copy_extensions_to_source(self) -> None:
        """Make the sources what was built, as far as they may be written to."""
        try:
            for path in (SOURCES / NOT_COMPILED, *SOURCES.glob(f"*{EXTENSION_SUFFIXES[0]}")):
                path.unlink(missing_ok=True)
            super().copy_extensions_to_source()
            told = Path(self.build_lib) / SOURCES / NOT_COMPILED
            if told.exists():
                shutil.copy(told, SOURCES)
        except OSError as error:
            sys.stderr.write(f"kfmt: the sources stay without extensions: {error}\n")


def extensions() -> list[Extension]:
    """The extensions; none of them where Cython is not there."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        sys.stderr.write(NO_COMPILER.format(reason="Cython is not installed"))
        return []
    sources = [Extension(SHARED, [f"{SOURCES}/_cyutility.c"])]
    sources += [
        Extension(f"kfmt_cli.core.native.{name}", [f"{SOURCES}/{name}.py"]) for name in MODULES
    ]
    made: list[Extension] = cythonize(
        sources,
        build_dir="build/cython",
        nthreads=JOBS,
        quiet=True,
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": 3,
            "boundscheck": True,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "show_performance_hints": False,
            "freethreading_compatible": True,
        },
    )
    for extension in made:
        extension.optional = True  # cythonize forgets it
        if sys.platform != "win32" and "CFLAGS" not in os.environ:
            extension.extra_compile_args = ["-O3", "-g0"]
        extension.depends = [*extension.depends, "setup.py"]
    return made


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNone})
