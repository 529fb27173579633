"""The rules of the house that ruff and mypy do not know, over one parsed tree.

    python -m tools.lint          a line for each place that breaks one; exit code 1

Imports point down and go in no circle; a file and a function are of a size that one can read; a
name says one thing; users' pages are in plain English.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "kfmt_cli"
# Each room imports those above it. Renderers show what checks find; they take findings, never the
# checks themselves.
LEVELS = [
    {"errors", "findings"},
    {"core"},
    {"formats"},
    {"rows", "topics"},
    {"disk"},
    {"log"},
    {"broker"},
    {"checks", "render"},
    {"execution", "writers"},
    {"arrow"},
    {"options"},
    {"commands", "spark"},
    {"browse"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
# Modules in the folder of a command that belong to other rooms.
OF_COMMAND_LINE = re.compile(
    rf"{PACKAGE}[./]commands[./](browse[./]command|pipeline[./](options|job_command))\b"
)
OF_OPTIONS = re.compile(rf"{PACKAGE}[./]commands[./]\w+[./]options\b")
# The same in the folder of each command.
PARTS_OF_COMMANDS = ("options", "command", "lines")
# Loops that a compiler turns into one jump from instruction to instruction; cut up, they are slow.
LOOPS = {
    "kernel.decode",
    "emit._write_row",
    "encode.measure_rows",
    "encode.encode",
    "cell._put_preview",
}
LISTINGS = {"glob", "iglob", "rglob", "iterdir", "scandir", "listdir"}
# Outputs and scratch files; the package's own sources; users' schemas.
LIST_THEIR_OWN = (
    *(
        "arrow/export/atomic_files.py",
        "writers/output.py",
        "writers/leftovers.py",
        "core/temporary_locks.py",
    ),
    *("core/native/build_state.py", "spark/session.py", "topics/schemas.py"),
)
# Rooms whose modules keep nothing that changes: objects do.
STATELESS = {"core", "disk"}
CONTAINERS = {"dict", "list", "set", "Counter", "defaultdict", "deque", "OrderedDict"}
CHANGES = {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault"}
CHANGES |= {"update"}
MOST_SUBSCRIPTS = 400  # of a string, in the package
LONGEST_FILE = 500  # lines
LONGEST_FUNCTION = 60
OTHER_ROOMS = ("tests", "tools", "bench")
# Pages and the number of lines, or words, that they may have.
LONGEST_README = 150
LONGEST_ARCHITECTURE = 2000
# Words that are not Kafka's or not English, and what to say instead.
VOCABULARY = (
    (r"(?<!left )(?<![`\"])\bbehind\b|\bbeside\b", "after, next to"),
    (r"\bgoes (on|away|now)\b", "continues; is deleted"),
    (r"\bso many\b|\bas far as\b", "that many; if"),
    (r"(?<!there )(?-i:\bis none\b)(?! of)", "is missing, is not a"),
    (r"\b(?:is|are) no (?:log|batch|file|segment|record|partition)s?\b", "is not a"),
    (r"\bdo(es)? not fit (its|their|the) bytes\b", "does not match"),
    (r"\banew\b", "again; rebuilt, rewritten"),
    (r"(?<!explain )(?<![/(\"'`-])\blook-ups?\b(?!\.md)", "lookup"),
    (r"\boffsets? goe?s?\b", "offsets are lost"),
    (r"\bnone damaged\b", "no damage"),
    (r"\bcarried along\b|\bleft behind\b", "copied; not copied"),
    (r"\bsigns of life\b", "heartbeats"),
    (r"\bany start\b", "next start"),
    (r"\bforetold\b|\bforetells?\b", "predicted"),
    (r"\btak(?:e|es|en) away\b", "removed"),
    (r"\bout of reach\b", "unreachable"),
    (r"\bstands? still\b", "is stuck"),
    (r"\bcuts? the (?:log|file)\b|\bis cut to\b", "truncates"),
    (r"\bpassed over without\b", "silently skipped"),
    (r"\bnot looked at\b", "not checked"),
    (r"\b(?:is|are) told\b", "is reported; is called with"),
    (r"\b(?:was|were) seen to\b", "in tests, …"),
    (r"\bof which (?:damage|nothing|no file)\b", "whose outcome damage hides; unknown"),
    (r"\b(?:written|built) again\b", "rewritten; rebuilt"),
    (r"\bin part only\b", "only in part"),
)
# Words that can hardly be right in a name (docs/vocabulary.md), and names that are right with one:
# columns, options and parameters of the contract, English idioms.
PRIVATE_WORDS = frozenset(
    (
        *("told", "held", "found", "given", "wanted", "words", "said", "saying", "asked", "sought"),
        *("beside", "stretch", "piece", "pieces", "seam", "seams", "folder", "folders"),
        *("bundle", "bundles", "trouble", "troubles", "witness", "torn"),
    )
)
PRIVATE_PHRASES = re.compile("so_far|left_over|as_it_is|passed_over|goes_on")
PUBLIC_NAMES = {
    *("found", "asked", "wanted", "words", "given_findings"),  # columns and options
    *("NotFoundError", "not_found_error", "not_found_messages"),  # not found, as others say
    "_read_words",  # of 32 bits
}
# A name in a docstring: in backticks, of several words; or an error.
NAME_IN_DOCSTRING = re.compile(r"`([a-z]\w*_\w+)`|\b([A-Z]\w+Error)\b")
NAME_FIELDS = ("id", "attr", "arg", "name", "asname")  # of nodes
VOCABULARY_PAGE = "vocabulary.md"  # it lists what not to say
DIALECT = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in VOCABULARY]


@dataclass(frozen=True)
class Source:
    """A Python file, parsed once."""

    path: Path
    root: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """What it parses to."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of it."""
        return list(ast.walk(self.tree))

    @property
    def name(self) -> str:
        """The file, for people."""
        return str(self.path.relative_to(self.root))

    @property
    def dotted(self) -> str:
        """The module's name."""
        parts = self.path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @property
    def room(self) -> str:
        """The part of the package that it belongs to; `__main__` is above all of them."""
        return _room(self.dotted)

    @property
    def package(self) -> str | None:
        """The package inside a room that it belongs to; None for a room's own modules, and for
        commands, which may run each other."""
        parts = self.path.relative_to(self.root).parts
        is_inside = len(parts) > 3 and parts[1] != "commands"
        return ".".join(parts[:3]) if is_inside else None

    def imports(self) -> Iterator[tuple[int, str, list[str]]]:
        """What it imports, wherever in it: line, module, and the names from there."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.removeprefix("cython.cimports.")
                yield node.lineno, module, [alias.name for alias in node.names]
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    yield node.lineno, alias.name.removeprefix("cython.cimports."), []

    def at_run_time(self, names: Mapping[str, Source]) -> set[str]:
        """The modules of the package that it imports when it runs."""
        for_types = {
            inner
            for node in self.nodes
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module and node not in for_types:
                base = node.module.removeprefix("cython.cimports.")
                each = [f"{base}.{alias.name}" for alias in node.names]
                found |= {name if name in names else base for name in each}
        return (found & set(names)) - {self.dotted}


@dataclass(frozen=True)
class House:
    """A checkout: the package's files, and those of the other rooms."""

    root: Path
    package: list[Source]
    others: list[Source]

    @classmethod
    def at(cls, root: Path) -> House:
        """The checkout below a directory."""
        package = _sources(root, PACKAGE)
        return cls(root, package, [each for room in OTHER_ROOMS for each in _sources(root, room)])

    def pages(self) -> list[Path]:
        """What users read."""
        folders = [self.root / "docs" / name for name in ("", "explain", "guides")]
        return sorted(
            [self.root / "README.md", *(page for folder in folders for page in folder.glob("*.md"))]
        )


def _room(module: str) -> str:
    """The part of the package that a module belongs to."""
    if OF_COMMAND_LINE.match(module):
        return "cli"
    if OF_OPTIONS.match(module):
        return "options"
    return module.split(".")[1] if "." in module else "__init__"


def _sources(root: Path, room: str) -> list[Source]:
    return [Source(path, root, path.read_text()) for path in sorted((root / room).rglob("*.py"))]


def imports_point_down(house: House) -> Iterator[str]:
    """No room imports one above it or next to it."""
    for source in house.package:
        room = source.room
        if room.startswith("__"):
            continue
        for line, module, _ in source.imports():
            other = _room(module) if module.startswith(f"{PACKAGE}.") else room
            if other != room and not LEVEL[other] < LEVEL[room]:
                yield f"{source.name}:{line}: {room} imports {other}"


def no_circles(house: House) -> Iterator[str]:
    """No file imports itself by way of others, nor does a package of a room."""
    names = {source.dotted: source for source in house.package}
    needs = {name: source.at_run_time(names) for name, source in names.items()}
    yield from _circles(needs)
    packages = {name: source.package for name, source in names.items() if source.package}
    package_needs: dict[str, set[str]] = {package: set() for package in packages.values()}
    for name, package in packages.items():
        others = {packages[other] for other in needs[name] if other in packages}
        package_needs[package] |= {
            other for other in others - {package} if _room(other) == _room(package)
        }
    yield from _circles(package_needs)


def _circles(needs: Mapping[str, set[str]]) -> Iterator[str]:
    """The circles of a graph, each as a line."""
    done: set[str] = set()
    found: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            found.append("a circle: " + " → ".join([*above[above.index(name) :], name]))
        elif name not in done:
            for other in sorted(needs[name]):
                visit(other, (*above, name))
            done.add(name)

    for name in needs:
        visit(name, ())
    yield from found


def files_are_short_and_say_their_job(house: House) -> Iterator[str]:
    """Each file has a docstring, and no more lines than one reads."""
    for source in house.package:
        if not ast.get_docstring(source.tree):
            yield f"{source.name}:1: no docstring says what it is for"
        if source.text.count("\n") > LONGEST_FILE:
            yield f"{source.name}: more than {LONGEST_FILE} lines"


def functions_are_short(house: House) -> Iterator[str]:
    """A function fits a screen, but for loops that are compiled."""
    for source in house.package:
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno
                is_loop = f"{source.path.stem}.{node.name}" in LOOPS
                if lines >= LONGEST_FUNCTION and not is_loop:
                    yield f"{source.name}:{node.lineno}: {node.name} has {lines + 1} lines"


def names_say_one_thing(house: House) -> Iterator[str]:
    """No class is named twice, no module three times, no variable `it`."""
    classes = Counter(
        node.name
        for source in house.package
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    )
    yield from (f"{n} classes are named {name}" for name, n in classes.items() if n > 1)
    stems = Counter(source.path.stem for source in house.package)
    for each in ("__init__", *PARTS_OF_COMMANDS):
        del stems[each]
    yield from (f"{n} modules are named {name}" for name, n in stems.items() if n > 2)
    for source in [*house.package, *house.others]:
        for node in source.nodes:
            if (isinstance(node, ast.Name) and node.id == "it") or (
                isinstance(node, ast.arg) and node.arg == "it"
            ):
                yield f"{source.name}:{node.lineno}: a variable named `it`"


def names_are_public_terms(house: House) -> Iterator[str]:
    """No module, class, function, parameter or attribute has a private word in its name."""
    for source in house.package:
        names = {(source.path.stem, 1), *_declared_names(source)}
        for name, line in sorted(names, key=lambda item: item[1]):
            snake_name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
            word = next((part for part in snake_name.split("_") if part in PRIVATE_WORDS), None)
            if phrase := PRIVATE_PHRASES.search(snake_name):
                word = phrase[0]
            if word is not None and name not in PUBLIC_NAMES:
                yield f"{source.name}:{line}: {name}: “{word}” is private; see docs/vocabulary.md"


def _declared_names(source: Source) -> Iterator[tuple[str, int]]:
    """Names of classes, functions, parameters and attributes, each with its line."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                target = statement.target if isinstance(statement, ast.AnnAssign) else None
                if isinstance(target, ast.Name):
                    yield target.id, statement.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def pages_name_what_exists(house: House) -> Iterator[str]:
    """A name in capitals on a page about the code is in the file that stands next to it."""
    for page in (house.root / "CONTRIBUTING.md", house.root / "docs/architecture.md"):
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for name, file in re.findall(r"`([A-Z_]{3,})`, `([\w/.]+\.py)`", line):
                path = house.root / PACKAGE / file
                text = path.read_text() if path.exists() else ""
                if not re.search(rf"^{name}\b", text, re.MULTILINE):
                    yield f"{page.name}:{number}: {file} has no {name}"


def docstrings_name_what_exists(house: House) -> Iterator[str]:
    """A name in a docstring is one of the package's, or of Python's."""
    names = set(dir(builtins)).union(*map(_names_and_words, house.package))
    for source in house.package:
        for text in _docstrings(source):
            for match in NAME_IN_DOCSTRING.finditer(str(text.value)):
                name = match[1] or match[2]
                if name not in names:
                    yield f"{source.name}:{text.lineno}: no {name} in the package"


def _docstrings(source: Source) -> list[ast.Constant]:
    """The docstrings of a file, those of attributes too."""
    statements = (node.value for node in source.nodes if isinstance(node, ast.Expr))
    values = (value for value in statements if isinstance(value, ast.Constant))
    return [value for value in values if isinstance(value.value, str)]


def _names_and_words(source: Source) -> set[str]:
    """The names in a file's code, and the words in its strings."""
    docstrings = set(map(id, _docstrings(source)))
    found: set[str] = set()
    for node in source.nodes:
        found |= {name for field in NAME_FIELDS if isinstance(name := getattr(node, field, 0), str)}
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            found.update(re.findall(r"\w+", node.value))  # type: ignore[attr-defined]
    return found


def inputs_are_listed_in_one_place(house: House) -> Iterator[str]:
    """Directories of users are listed in disk/; others list what kfmt itself has written."""
    for source in house.package:
        if source.room == "disk" or source.name.endswith(LIST_THEIR_OWN):
            continue
        for node in source.nodes:
            if isinstance(node, ast.Attribute) and node.attr in LISTINGS:
                yield f"{source.name}:{node.lineno}: {node.attr}; use disk/directory_listing.py"


def objects_keep_what_changes(house: House) -> Iterator[str]:
    """No dictionary, list or set of a module in core/ or disk/ changes."""
    for source in house.package:
        if source.room not in STATELESS:
            continue
        kept = set(_containers(source.tree))
        for node in source.nodes:
            changed: ast.expr | None = None
            is_put = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
            if is_put or (isinstance(node, ast.Attribute) and node.attr in CHANGES):
                changed = node.value  # type: ignore[attr-defined]
            if isinstance(changed, ast.Name) and changed.id in kept:
                yield f"{source.name}:{changed.lineno}: {changed.id} of the module changes"


def _containers(module: ast.Module) -> Iterator[str]:
    """The names of a module's dictionaries, lists and sets."""
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            value = node.value
            is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
            made = is_call and value.func.id in CONTAINERS  # type: ignore[union-attr]
            if made or isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def members_are_attributes(house: House) -> Iterator[str]:
    """Rows and tables of known members have attributes: few subscripts are strings."""
    counts = Counter(
        source.name
        for source in house.package
        for node in source.nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    )
    if counts.total() > MOST_SUBSCRIPTS:
        (most, n), *_ = counts.most_common(1)
        yield f"{most}: {n} subscripts are strings, of {counts.total()} in all; use attributes"


def pages_are_in_plain_english(house: House) -> Iterator[str]:
    """No word of the vocabulary's left side, on a page or in the package."""
    texts = {
        str(page.relative_to(house.root)): re.sub(
            r"```python\n.*?```", _blank, page.read_text(), flags=re.DOTALL
        )
        for page in house.pages()
        if page.name != VOCABULARY_PAGE
    }
    texts |= {source.name: source.text for source in house.package}
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, better in DIALECT:
                if found := pattern.search(line):
                    yield f"{name}:{number}: “{found[0]}”; better: {better}"


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def pages_keep_their_length(house: House) -> Iterator[str]:
    """README and architecture stay of a length that people read."""
    lines = len((house.root / "README.md").read_text().splitlines())
    if lines > LONGEST_README:
        yield f"README.md: {lines} lines; {LONGEST_README} at most"
    words = len((house.root / "docs/architecture.md").read_text().split())
    if words > LONGEST_ARCHITECTURE:
        yield f"docs/architecture.md: {words} words; {LONGEST_ARCHITECTURE} at most"


RULES = (
    imports_point_down,
    no_circles,
    files_are_short_and_say_their_job,
    functions_are_short,
    names_say_one_thing,
    names_are_public_terms,
    pages_name_what_exists,
    docstrings_name_what_exists,
    inputs_are_listed_in_one_place,
    objects_keep_what_changes,
    members_are_attributes,
    pages_are_in_plain_english,
    pages_keep_their_length,
)


def main() -> None:
    house = House.at(ROOT)
    broken = [words for rule in RULES for words in rule(house)]
    sys.stdout.writelines(f"{words}\n" for words in broken)
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
