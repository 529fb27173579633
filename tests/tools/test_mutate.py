"""Mutants change only code with an effect, and a run reports whether a test catches each one."""

from __future__ import annotations

import ast
import io
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tools.coverage_rooms import lines_by_room
from tools.coverage_rooms import table as coverage_table
from tools.lint import House
from tools.mutant_runs import (
    CAUGHT,
    ENDED,
    FINDINGS,
    NOT_COVERED,
    NOT_IMPORTED,
    NOT_INSTALLED,
    SURVIVED,
    Outcome,
    run_in_new_process,
)
from tools.mutants import MODULE, Mutant, mutants, mutated
from tools.mutate import (
    Plan,
    Result,
    draw,
    judged,
    known_from,
    planned,
    shares,
    spread,
    table,
)
from tools.mutated import install

TOY = '''
"""A module of a few words, with 1 number in them."""
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    LATER = 7
LIMIT = 10
WORDS = {"one": 1, "two": 2}


class Toy:
    """Holds 3 things."""

    def __repr__(self) -> str:
        return "Toy" * 2


def first(items: list[int], key: Literal[4] = 5) -> int:
    """Give the first 6."""
    if not items or key is None:
        raise ValueError(f"none of {len(items) + 8}")
    for item in items[1:]:
        if item > LIMIT and key in items:
            continue
        if item == 9:
            break
        items.append(item)
    total = min(items) + 2 * key
    assert total != 11
    return pair(total, key)


def pair(left: int, right: int) -> int:
    """Put two together."""
    kind = "word" if left == "twelve" else "none"
    return left - right if kind == "none" else True


def between(low: int, value: int, high: int, *, is_open: bool = True) -> str:
    """Say in a message of 3 words where a value is."""
    if low <= value < high:
        return (
            f"{value - low:4d} of "
            f"{high - low}"
        )
    low += 1
    return str(value)
'''
NAME = "toy_of_mutants.py"


def changes(kind: str) -> set[str]:
    """The changed lines of the mutants of a kind."""
    return {mutant.after for mutant in mutants(TOY, NAME) if mutant.kind == kind}


def test_each_kind_of_mutant_is_made() -> None:
    assert "if item >= LIMIT and key in items:" in changes("comparison")
    assert "if item > LIMIT and key not in items:" in changes("comparison")
    assert "if not items or key is not None:" in changes("comparison")
    assert "total = min(items) - 2 * key" in changes("arithmetic")
    assert "total = min(items) + 2 // key" in changes("arithmetic")
    assert {"LIMIT = 11", "LIMIT = 9", "total = min(items) + 3 * key"} <= changes("number")
    assert "if item > LIMIT or key in items:" in changes("boolean")
    assert "if items or key is None:" in changes("not")
    assert {"if True:", "if False:"} <= changes("condition")
    assert changes("dropped") == {"(dropped)"}
    assert changes("loop") == {"break", "continue"}
    assert "return None" in changes("return")
    assert "total = max(items) + 2 * key" in changes("min/max")
    assert changes("slice") == {
        "for item in items[:]:",
        "for item in items[1 + 1:]:",
        "for item in items[1 - 1:]:",
    }
    assert changes("arguments") == {"return pair(key, total)"}
    assert 'kind = "word" if left == \'XXtwelve\' else "none"' in changes("word")
    assert changes("operand") == {
        "if not items:",
        "if key is None:",
        "if item > LIMIT:",
        "if key in items:",
    }
    assert changes("chain") == {"if low <= value:", "if value < high:"}
    assert changes("early return") == {"(dropped)"}
    assert any("is_open: bool = False" in line for line in changes("flag"))
    assert "return value" in changes("call")


def test_values_in_messages_are_mutated_and_their_words_are_not() -> None:
    assert {"{value + low}", "{high + low}"} <= changes("arithmetic")
    assert changes("formatted") == {"{''}"}
    lines = {mutant.line for mutant in mutants(TOY, NAME) if mutant.before == "{high - low}"}
    assert lines == {next(n for n, line in enumerate(TOY.splitlines(), 1) if "4d" in line)}
    assert not any("of" in mutant.after for mutant in mutants(TOY, NAME) if "{" in mutant.after)


def test_messages_and_types_are_not_mutated() -> None:
    changed_lines = [mutant.before for mutant in mutants(TOY, NAME)]
    for text in ('"""', "LATER", "WORDS", '"Toy"', "assert", "LATER"):
        assert not any(text in old_line for old_line in changed_lines), text
    new_lines = " ".join(mutant.after for mutant in mutants(TOY, NAME))
    assert "Literal[5]" not in new_lines
    assert "XXnone of" not in new_lines  # in a message
    assert "XXnone" in new_lines  # compared
    assert "XXword" not in new_lines


def test_every_mutant_compiles_and_differs() -> None:
    original = ast.dump(ast.parse(TOY))
    for mutant in mutants(TOY, NAME):
        tree = mutated(TOY, mutant.number)
        assert ast.dump(tree) != original
        compile(tree, NAME, "exec")


def test_defaults_run_at_import_and_bodies_in_their_function() -> None:
    function_by_line = {mutant.after: mutant.function for mutant in mutants(TOY, NAME)}
    assert function_by_line["def first(items: list[int], key: Literal[4] = 6) -> int:"] == MODULE
    assert function_by_line["return pair(key, total)"].startswith("first:")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The toy, imported as a module."""
    (tmp_path / NAME).write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    name = Path(NAME).stem
    yield __import__(name)
    sys.modules.pop(name, None)


def mutant_to(changed_line: str) -> Mutant:
    """The mutant whose changed line is this one."""
    return next(mutant for mutant in mutants(TOY, NAME) if mutant.after == changed_line)


def test_functions_that_exist_get_the_mutant(toy: ModuleType, tmp_path: Path) -> None:
    function = toy.pair
    assert function(5, 3) == 2
    install(tmp_path, NAME, mutant_to('return left + right if kind == "none" else True').number)
    assert function(5, 3) == 8


def test_a_module_that_is_imported_later_gets_the_mutant(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    del sys.modules[toy.__name__]
    install(tmp_path, NAME, mutant_to("LIMIT = 11").number)
    assert __import__(toy.__name__).LIMIT == 11


class ToyRuns:
    """Runs toy tests, each a function of the toy's names, with or without a mutant."""

    def __init__(self, tests: dict[str, Callable[[dict[str, Any]], bool]]) -> None:
        self._tests = tests
        self.broken: set[str] = set()

    def run(self, tests: list[str], change: tuple[str, int] | None, fresh: bool = False) -> Outcome:
        """As Runs.run."""
        del fresh
        names: dict[str, Any] = {"__name__": "toy"}
        tree = ast.parse(TOY) if change is None else mutated(TOY, change[1])
        exec(compile(tree, NAME, "exec"), names)  # noqa: S102
        for n_run, test in enumerate(tests, 1):
            if not self._tests[test](names):
                return Outcome(CAUGHT, test, n_run)
        return Outcome(SURVIVED, ran=len(tests))

    def failing(self, tests: list[str], fresh: bool) -> str:
        """As Runs.failing."""
        return self.run(tests, None, fresh).by


RUNS: Any = ToyRuns(
    {
        "adds": lambda names: names["pair"](5, 3) == 2,
        "weak": lambda names: names["pair"](5, 0) == 5,
        "wrong": lambda names: names["pair"](5, 3) == 9,
        "opposite": lambda names: names["pair"](5, 3) == 8,
    }
)
PLUS = 'return left + right if kind == "none" else True'


def results(*tests: str) -> tuple[list[str], str]:
    """The results with some tests, and the printed text."""
    output, report = io.StringIO(), io.StringIO()
    plan = Plan(mutant_to(PLUS), "core", list(tests), fresh=False)
    judgements = judged([plan], {}, RUNS, output, report)
    assert report.getvalue().count("\n") == 1
    return [result.found for result in judgements], output.getvalue() + "\n".join(table(judgements))


def test_a_mutant_that_a_test_notices_is_caught() -> None:
    outcomes, output = results("weak", "adds")
    assert outcomes == [CAUGHT]
    assert "by adds" in output


def test_a_mutant_that_no_test_notices_survived() -> None:
    outcomes, output = results("weak")
    assert outcomes == [SURVIVED]
    assert f"{NAME}:" in output
    assert PLUS in output


def test_a_line_that_no_test_executes_is_reported() -> None:
    assert results()[0] == [NOT_COVERED]


def test_a_test_that_fails_without_the_mutant_catches_none() -> None:
    outcomes, output = results("wrong", "weak")
    assert outcomes == [SURVIVED]
    assert "left out      wrong" in output


def test_a_run_without_a_mutant_that_fails_ends_all() -> None:
    with pytest.raises(SystemExit, match="without a mutant: caught opposite"):
        results("opposite")


class UselessRuns(ToyRuns):
    """Runs that end with a mutant before a test says anything about it."""

    def __init__(self, found_in_fork: str, found_in_new_process: str) -> None:
        super().__init__({"adds": lambda names: names["pair"](5, 3) == 2})
        self._found = {False: found_in_fork, True: found_in_new_process}

    def run(self, tests: list[str], change: tuple[str, int] | None, fresh: bool = False) -> Outcome:
        """As Runs.run."""
        return super().run(tests, None) if change is None else Outcome(self._found[fresh])


@pytest.mark.parametrize(
    ("found_in_fork", "found_in_new_process", "expected"),
    [
        (ENDED, CAUGHT, ENDED),
        (NOT_INSTALLED, NOT_IMPORTED, NOT_IMPORTED),
        (NOT_INSTALLED, NOT_INSTALLED, NOT_INSTALLED),
        (NOT_INSTALLED, SURVIVED, SURVIVED),
    ],
)
def test_a_run_that_says_nothing_is_no_success(
    found_in_fork: str, found_in_new_process: str, expected: str
) -> None:
    runs: Any = UselessRuns(found_in_fork, found_in_new_process)
    plan = Plan(mutant_to(PLUS), "core", ["adds"], fresh=False)
    judgements = judged([plan], {}, runs, io.StringIO(), io.StringIO())
    assert [result.found for result in judgements] == [expected]
    caught = Result(plan, Outcome(CAUGHT))
    lines = table([*judgements, caught])
    assert lines[1].split("  ")[-1].strip() == FINDINGS[-1]
    n_judged = 2 if expected == SURVIVED else 1
    assert f"score: 1 of {n_judged} caught, {1 / n_judged:.0%}" in lines


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("assert True", SURVIVED),
        ("assert False", CAUGHT),
        ("import os; os._exit(0)", ENDED),
        ("assert True\n\nimport no_such_module", NOT_IMPORTED),
    ],
)
def test_a_new_process_says_how_its_tests_ended(tmp_path: Path, body: str, expected: str) -> None:
    (tmp_path / "test_toy.py").write_text(f"def test_it():\n    {body}\n")
    test = "test_toy.py::test_it"
    outcome = run_in_new_process([test], None, tmp_path, limit=60.0, root=tmp_path)
    assert outcome.found == expected
    assert outcome.by == (test if expected == CAUGHT else "")


def test_mutants_are_spread_over_rooms_and_functions(tmp_path: Path) -> None:
    for name in ("core/a.py", "log/b.py", "log/c.py"):
        file = tmp_path / "kfmt_cli" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TOY)
    house = House.at(tmp_path)
    selected = draw(house.package, ["core", "log"], 6, seed=1)
    assert sorted(mutant.file for mutant in selected)[:2] == ["kfmt_cli/core/a.py"] * 2
    assert len({(mutant.file, mutant.function) for mutant in selected}) == len(selected) == 6
    assert selected == draw(house.package, ["core", "log"], 6, seed=1)
    assert selected != draw(house.package, ["core", "log"], 6, seed=2)
    assert shares({"a": 1, "b": 1, "c": 2}, 5) == {"a": 1, "b": 1, "c": 3}


def test_tests_are_those_of_the_line_and_at_import_those_of_the_file(tmp_path: Path) -> None:
    class ToyLines:
        seconds: ClassVar = {"a::of_first": 1.0, "a::of_pair": 2.0}

        def tests_of(self, file: Path) -> dict[int, set[str]]:
            del file
            lines = enumerate(TOY.splitlines(), 1)
            return {
                line_number: {"a::of_pair"} if "left - right" in line else {"a::of_first"}
                for line_number, line in lines
                if line.startswith("    ")
            }

    file = tmp_path / "kfmt_cli/core/toy.py"
    file.parent.mkdir(parents=True)
    file.write_text(TOY)
    selected = [
        replace(mutant_to(after), file="kfmt_cli/core/toy.py") for after in (PLUS, "LIMIT = 11")
    ]
    lines: Any = ToyLines()
    of_line, at_import = planned(selected, House.at(tmp_path), lines, 60, 30.0)
    assert (of_line.tests, of_line.fresh) == (["a::of_pair"], False)
    assert (at_import.tests, at_import.fresh) == (["a::of_first", "a::of_pair"], True)


def test_a_report_is_read_again(tmp_path: Path) -> None:
    plan = Plan(mutant_to(PLUS), "core", ["weak"], fresh=False)
    file = tmp_path / "report.jsonl"
    first, last = (Result(plan, Outcome(outcome, ran=1)) for outcome in (SURVIVED, CAUGHT))
    file.write_text(f"{first.json}\n{last.json}\n")
    assert known_from(file) == {plan.mutant: last.outcome}


def test_the_cheapest_tests_of_every_file_are_chosen_first() -> None:
    seconds = {"a::1": 1.0, "a::2": 2.0, "a::3": 3.0, "b::1": 9.0}
    assert spread(seconds, seconds, 3, 20.0, "c") == ["a::1", "a::2", "b::1"]
    assert spread(seconds, seconds, 4, 11.0, "c") == ["a::1", "b::1"]
    assert spread(seconds, seconds, 3, 20.0, "a") == ["a::1", "a::2", "a::3"]


def test_a_room_below_its_floor_is_reported() -> None:
    def file(n_statements: int, n_covered: int) -> dict[str, dict[str, int]]:
        return {"summary": {"num_statements": n_statements, "covered_lines": n_covered}}

    rooms = lines_by_room(
        {
            "files": {
                "kfmt_cli/log/reader.py": file(10, 9),
                "kfmt_cli/errors.py": file(4, 4),
                "kfmt_cli/core/native/kernel.py": file(100, 0),  # compiled
                "kfmt_cli/core/urls.py": file(6, 3),
            }
        }
    )
    assert rooms == {"log": (10, 9), "errors": (4, 4), "core": (6, 3)}
    assert coverage_table(rooms, {"log": 90.0, "core": 50.0})[1]
    lines, is_above_floor = coverage_table(rooms, {"log": 90.1})
    assert not is_above_floor
    assert any("below its floor" in line and line.startswith("log") for line in lines)
    assert not coverage_table(rooms, {"arrow": 1.0})[1]


def test_texts_are_shown_in_one_line() -> None:
    source = textwrap.dedent(
        """
        def f(a, b):
            return g(
                a,
                b,
            )
        """
    )
    assert all("\n" not in mutant.before + mutant.after for mutant in mutants(source, NAME))
