"""Builds the compiled kernel; without a compiler the same sources run interpreted."""

import os

from setuptools import Extension, setup

KERNELS = tuple(
    f"kfmt_cli.core.{name}"
    for name in ("kernel", "encode", "scan", "text", "quote", "cell", "room", "emit")
)


def extensions() -> list[Extension]:
    from Cython.Build import cythonize

    return cythonize(
        [
            # optional: a failed compilation leaves the interpreted module in place.
            Extension(
                name,
                ["src/" + name.replace(".", "/") + ".py"],
                optional=True,
                extra_compile_args=["-O3"],
            )
            for name in KERNELS
        ],
        build_dir="build/cython",
        include_path=["src"],
        nthreads=os.cpu_count() or 1,
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


setup(ext_modules=extensions())
