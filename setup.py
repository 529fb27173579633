"""Builds the compiled modules; without a compiler the same sources run interpreted."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = Path("kfmt_cli/core/native")
# The names of the modules, and of the files that record how they were built.
COMPILED = runpy.run_path(str(SOURCES / "build_state.py"))
MODULES: tuple[str, ...] = COMPILED["MODULES"]
SHARED: str = COMPILED["SHARED"]
STATE_FILES = (COMPILED["NOT_COMPILED"], COMPILED["COMPILED_FROM"])
JOBS = os.cpu_count() or 1
NO_COMPILER = """\
kfmt: {reason}
kfmt: its modules are installed as Python, which gives the same output many times slower.
"""


class AllOrNone(build_ext):
    """Builds the extensions in parallel, and installs none of them when one cannot be built.

    They call each other below Python, so a compiled one cannot work with an interpreted one.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or JOBS
        # Extensions go next to the sources, too, so that programs in a clone are as fast.
        self.inplace = True

    def build_extensions(self) -> None:
        super().build_extensions()
        built = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        not_compiled, compiled_from = (
            Path(self.build_lib) / SOURCES / name for name in STATE_FILES
        )
        for path in (not_compiled, compiled_from):
            path.unlink(missing_ok=True)
        not_compiled.parent.mkdir(parents=True, exist_ok=True)
        if all(path.exists() for path in built):
            compiled_from.write_text(f"{COMPILED['hash_of_sources'](SOURCES)}\n")
            return
        for path in built:
            path.unlink(missing_ok=True)
        sys.stderr.write(NO_COMPILER.format(reason="no C compiler that works was found"))
        not_compiled.write_text("no C compiler when it was installed\n")

    def copy_extensions_to_source(self) -> None:
        """Copy the built extensions next to the sources, if that directory is writable."""
        try:
            state_files = [SOURCES / name for name in STATE_FILES]
            for path in (*state_files, *SOURCES.glob(f"*{EXTENSION_SUFFIXES[0]}")):
                path.unlink(missing_ok=True)
            super().copy_extensions_to_source()
            for path in state_files:
                if (Path(self.build_lib) / path).exists():
                    shutil.copy(Path(self.build_lib) / path, SOURCES)
        except OSError as error:
            sys.stderr.write(f"kfmt: the sources stay without extensions: {error}\n")


def extensions() -> list[Extension]:
    """The extensions; none without Cython."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        sys.stderr.write(NO_COMPILER.format(reason="Cython is not installed"))
        return []
    package = ".".join(SOURCES.parts)
    shared = f"{package}.{SHARED}"
    sources = [Extension(shared, [f"{SOURCES}/{SHARED}.c"])]
    sources += [Extension(f"{package}.{name}", [f"{SOURCES}/{name}.py"]) for name in MODULES]
    cythonized: list[Extension] = cythonize(
        sources,
        build_dir="build/cython",
        nthreads=JOBS,
        quiet=True,
        shared_utility_qualified_name=shared,
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
    for extension in cythonized:
        extension.optional = True  # cythonize forgets it
        if sys.platform != "win32" and "CFLAGS" not in os.environ:
            extension.extra_compile_args = ["-O3", "-g0"]
        extension.depends = [*extension.depends, "setup.py"]
    return cythonized


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNone})
