"""Imports point down; files stay of a size that one can read."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tools.kafka import ROOT

LEVELS = [
    {"errors", "findings"},
    {"core"},
    {"formats"},
    {"rows", "topics"},
    {"disk"},
    {"log"},
    {"broker"},
    {"checks", "render"},
    {"sharing", "writing"},
    {"arrow"},
    {"commands", "spark"},
    {"browse"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
# Renderers show what checks find; they take findings, never the checks themselves.
MODULES = sorted((ROOT / "kfmt_cli").rglob("*.py"))


def imported(module: Path) -> set[str]:
    """The parts of kfmt_cli that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        parts = [name.removeprefix("cython.cimports.").split(".") for name in names]
        found |= {part[1] for part in parts if part[0] == "kfmt_cli" and len(part) > 1}
    return found


def python_in(room: str) -> list[Path]:
    """The Python files of a directory at the top level."""
    return sorted((ROOT / room).rglob("*.py"))


def part_of(module: Path) -> str:
    """The part of the package that a module belongs to; `__main__` is above all of them."""
    return module.relative_to(ROOT / "kfmt_cli").parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "module",
    [module for module in MODULES if not part_of(module).startswith("__")],
    ids=lambda module: str(module.relative_to(ROOT)),
)
def test_imports_point_down(module: Path) -> None:
    part = part_of(module)
    for other in imported(module):
        assert other == part or LEVEL[other] < LEVEL[part], f"{part} imports {other}"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(ROOT)))
def test_every_module_says_its_job_and_is_short(module: Path) -> None:
    text = module.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= 500


# Loops that a compiler turns into one jump from instruction to instruction; cut up, they are slow.
LOOPS = {"kernel._decode", "emit._row", "encode._measure", "encode._encode", "cell._preview"}


def is_compiled(module: Path) -> bool:
    """Whether Cython compiles a module."""
    return module.with_suffix(".pyi").exists()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(ROOT)))
def test_functions_are_short(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef) and f"{module.stem}.{node.name}" not in LOOPS:
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


def test_every_class_has_a_name_of_its_own() -> None:
    names = [
        node.name
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name, n in Counter(names).items() if n > 1] == []


def test_variables_are_named_for_what_they_hold() -> None:
    every = [*MODULES, *(file for room in ("tests", "tools", "bench") for file in python_in(room))]
    vague = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in every
        for node in ast.walk(ast.parse(file.read_text()))
        if (isinstance(node, ast.Name) and node.id == "it")
        or (isinstance(node, ast.arg) and node.arg == "it")
    ]
    assert vague == []


def test_no_name_of_a_module_is_given_more_than_twice() -> None:
    names = Counter(module.stem for module in MODULES if module.stem != "__init__")
    assert [name for name, n in names.items() if n > 2] == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    names = {dotted(module): module for module in MODULES}
    needs = {name: imported_files(module, names) for name, module in names.items()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " → ".join([*above, name])
        if name not in done:
            for other in sorted(needs[name]):
                visit(other, (*above, name))
            done.add(name)

    for name in names:
        visit(name, ())


def dotted(module: Path) -> str:
    """A module's name."""
    parts = module.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported_files(module: Path, names: dict[str, Path]) -> set[str]:
    """The modules that a module imports when it runs, wherever in it."""
    found: set[str] = set()
    tree = ast.parse(module.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node not in for_types:
            base = node.module.removeprefix("cython.cimports.")
            each = [f"{base}.{alias.name}" for alias in node.names]
            found |= {name if name in names else base for name in each}
    return (found & set(names)) - {dotted(module)}
