"""Mutation testing: small faults in the package, and whether a test notices each of them.

    python -m tools.mutate [--seed N] [--count 200] [--room NAME …] [--most-tests 60]
                           [--most-seconds 30] [--report FILE.jsonl] [--resume [--again]]
                           [--leave-out TEST …] [--map DIRECTORY]

A mutant (tools/mutants.py) runs with the tests that execute its line (tools/line_map.py), in a fork
of a process that has collected all tests or, if the line runs at import, in a new process. Every
20th run has no mutant and must pass; so must a test that catches a mutant when it runs without one.
Compiled modules and Spark are skipped by default. Compiled modules run as Python; as their lines
are not recorded, they run with tests of modules that import them. --resume continues a report; with
--again, mutants that survived some of their tests run with more, if --most-tests and --most-seconds
allow more.

The score is the share of caught mutants among those that were caught, survived or are not covered.
A mutant that could not be installed or imported, or that ended the process, says nothing about the
tests and has a column of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from pathlib import Path
from typing import TextIO

from tools.line_map import LineMap, line_map
from tools.lint import LEVEL, PACKAGE, ROOT, House, Source
from tools.mutant_runs import (
    CAUGHT,
    FINDINGS,
    NOT_COVERED,
    NOT_INSTALLED,
    SURVIVED,
    TIME_LIMIT,
    Outcome,
    Runs,
    with_tests,
)
from tools.mutants import Mutant, mutants

OPTIONAL_ROOMS = ("native", "spark")
CONTROL = 20
OWN_ROOM_TESTS = 8  # tests of a file in the mutant's room for each test of another file


@dataclass(frozen=True)
class Plan:
    """A mutant and its tests. fresh: in a new process, because its line runs at import."""

    mutant: Mutant
    room: str
    tests: list[str]
    fresh: bool


@dataclass(frozen=True)
class Result:
    """The result of a mutant: one of FINDINGS."""

    plan: Plan
    outcome: Outcome

    @property
    def found(self) -> str:
        """The result as text."""
        return self.outcome.found

    @property
    def line(self) -> str:
        """A line for readers."""
        mutant, outcome = self.plan.mutant, self.outcome
        end = f"  [by {outcome.by}]" if outcome.by else ""
        if self.found == SURVIVED:
            end = f"  [{outcome.ran} tests]"
        change = f"{mutant.before}  →  {mutant.after}"
        return f"{self.found:<13} {mutant.file}:{mutant.line} {mutant.kind}: {change}{end}"

    @property
    def json(self) -> str:
        """A line of JSON for programs."""
        members = {**asdict(self.plan.mutant), "room": self.plan.room, "fresh": self.plan.fresh}
        return json.dumps(
            {**members, **asdict(self.outcome), "tests": self.plan.tests}, ensure_ascii=False
        )


def room_of(source: Source) -> str:
    """The room of a source; compiled modules form a separate one."""
    return "native" if source.path.with_suffix(".pyi").exists() else source.room


def draw(sources: Iterable[Source], rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Mutants distributed over rooms by lines of code, at most one for each function."""
    by_room: defaultdict[str, list[Source]] = defaultdict(list)
    for source in sources:
        if room_of(source) in rooms:
            by_room[room_of(source)].append(source)
    lines = {
        room: sum(len(source.text.splitlines()) for source in by_room[room]) for room in by_room
    }
    drawn: list[Mutant] = []
    for room, n in shares(lines, count).items():
        drawn += _draw_from_room(by_room[room], n, random.Random(f"{seed} {room}"))
    random.Random(seed).shuffle(drawn)
    return drawn


def shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """`count` split by size; the largest remainders are rounded up."""
    total = sum(sizes.values()) or 1
    exact_counts = {name: count * size / total for name, size in sizes.items()}
    counts = {name: int(share) for name, share in exact_counts.items()}
    by_remainder = sorted(exact_counts, key=lambda name: (counts[name] - exact_counts[name], name))
    for name in by_remainder[: count - sum(counts.values())]:
        counts[name] += 1
    return counts


def _draw_from_room(sources: Sequence[Source], count: int, rng: random.Random) -> list[Mutant]:
    """One mutant of each selected function; functions are weighted by their number of mutants."""
    by_function: defaultdict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for source in sources:
        for mutant in mutants(source.text, source.name):
            by_function[mutant.file, mutant.function].append(mutant)
    # Sampling without replacement.
    weighted = sorted(by_function, key=lambda key: -(rng.random() ** (1 / len(by_function[key]))))
    drawn = []
    for key in weighted[:count]:
        mutants_by_kind: defaultdict[str, list[Mutant]] = defaultdict(list)
        for mutant in by_function[key]:
            mutants_by_kind[mutant.kind].append(mutant)
        drawn.append(rng.choice(mutants_by_kind[rng.choice(sorted(mutants_by_kind))]))
    return drawn


def planned(
    drawn: Sequence[Mutant], house: House, lines: LineMap, max_tests: int, max_seconds: float
) -> list[Plan]:
    """The tests for each mutant, in the order of the mutants."""
    sources = {source.name: source for source in house.package}
    plans: dict[Mutant, Plan] = {}
    for file in {mutant.file for mutant in drawn}:
        tests_of = lines.tests_of(house.root / file)
        all_tests = set().union(*tests_of.values()) - {""} or _tests_of_importers(
            sources[file], house, lines
        )
        room = room_of(sources[file])
        for mutant in drawn:
            if mutant.file == file:
                line_tests = tests_of.get(mutant.line) or tests_of.get(mutant.statement_line, set())
                is_recorded = not mutant.at_import and room != "native"  # where lines are recorded
                tests = line_tests - {""} if is_recorded else set()
                fresh = not is_recorded or "" in line_tests
                tests = tests or all_tests if fresh else tests
                own_directory = f"tests/{sources[file].room}/"
                selected = spread(tests, lines.seconds, max_tests, max_seconds, own_directory)
                plans[mutant] = Plan(mutant, room, selected, fresh)
    return [plans[mutant] for mutant in drawn]


def _tests_of_importers(source: Source, house: House, lines: LineMap) -> set[str]:
    """The tests that execute a line of a module that imports this one; for a compiled module, of a
    module that imports any, because compiled modules call each other."""
    names = {module.dotted: module for module in house.package}
    dotted_names = {source.dotted}
    if room_of(source) == "native":
        dotted_names = {module.dotted for module in house.package if room_of(module) == "native"}
    tests: set[str] = set()
    for other in house.package:
        if dotted_names & other.at_run_time(names):
            tests = tests.union(*lines.tests_of(other.path).values())
    return tests - {""}


def spread(
    tests: Iterable[str],
    seconds: dict[str, float],
    max_tests: int,
    max_seconds: float,
    own_directory: str,
) -> list[str]:
    """At most max_tests tests of max_seconds in total: the fastest of every file, then the second
    of each, and so on; several at once from files in own_directory. Tests of a file stay together
    because they share fixtures; fast files come first."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        by_file[test.split("::", 1)[0]].append(test)
    ranked = sorted(
        (rank // (OWN_ROOM_TESTS if test.startswith(own_directory) else 1), seconds[test], test)
        for file_tests in by_file.values()
        for rank, test in enumerate(file_tests)
    )
    costs = accumulate(cost for _, cost, _ in ranked[:max_tests])
    n = sum(cost <= max_seconds for cost in costs)
    selected = {test for _, _, test in ranked[:n]}
    files = [[test for test in file_tests if test in selected] for file_tests in by_file.values()]
    files.sort(key=lambda file_tests: (sum(seconds[test] for test in file_tests), file_tests))
    return [test for file_tests in files for test in file_tests]


def judge(plan: Plan, runs: Runs, output: TextIO) -> Result:
    """Run a mutant's tests. A test that catches it must pass after the same tests without the
    mutant; otherwise it is skipped, as it depends on an earlier test or is flaky."""
    tests = [test for test in plan.tests if test not in runs.broken]
    mutant = plan.mutant
    while tests:
        fresh = plan.fresh
        outcome = runs.run(tests, (mutant.file, mutant.number), fresh)
        if outcome.found == NOT_INSTALLED:  # it needs the import
            fresh = True
            outcome = runs.run(tests, (mutant.file, mutant.number), fresh)
        if outcome.found == SURVIVED:
            return Result(plan, outcome)
        failed = runs.failing(tests[: outcome.ran or None], fresh)
        if not failed:
            return Result(plan, outcome)
        print(f"{'left out':<13} {failed}: it fails without a mutant", file=output, flush=True)
        runs.broken.add(failed)
        tests.remove(failed)
    return Result(plan, Outcome(NOT_COVERED))


def judged(
    plans: Sequence[Plan],
    previous: dict[Mutant, Outcome],
    runs: Runs,
    output: TextIO,
    report: TextIO,
) -> list[Result]:
    """The results of all mutants, each printed immediately. Raises SystemExit if tests fail without
    a mutant."""
    results = []
    for index, plan in enumerate(plans):
        if plan.mutant in previous:
            results.append(Result(plan, previous[plan.mutant]))
            continue
        results.append(judge(plan, runs, output))
        print(results[-1].line, file=output, flush=True)
        print(results[-1].json, file=report, flush=True)
        if index % CONTROL == 0:
            tests = [test for test in plan.tests if test not in runs.broken]
            control = runs.run(tests, None, plan.fresh) if tests else Outcome(SURVIVED)
            print(
                f"{'control':<13} {control.ran} tests, {control.seconds:.1f} s",
                file=output,
                flush=True,
            )
            if control.found != SURVIVED:
                raise SystemExit(f"without a mutant: {control.found} {control.by} {control.why}")
    return results


def known_from(report: Path) -> dict[Mutant, Outcome]:
    """The results in a report; the last one of each mutant."""
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    mutant_fields, outcome_fields = (
        [field.name for field in fields(class_)] for class_ in (Mutant, Outcome)
    )
    return {
        Mutant(**{name: row[name] for name in mutant_fields}): Outcome(
            **{name: row[name] for name in outcome_fields}
        )
        for row in rows
    }


def table(results: Sequence[Result]) -> list[str]:
    """The counts of results by room, the score, and all mutants that no test caught."""
    counts = Counter((result.plan.room, result.found) for result in results)
    totals = Counter(result.found for result in results)
    rooms = sorted({result.plan.room for result in results}, key=lambda room: (_level(room), room))
    lines = ["", f"{'room':<12}{'made':>6}" + "".join(f"{name:>15}" for name in FINDINGS)]
    for room in (*rooms, "all"):
        row_counts = [totals[name] if room == "all" else counts[room, name] for name in FINDINGS]
        lines.append(f"{room:<12}{sum(row_counts):>6}" + "".join(f"{n:>15}" for n in row_counts))
    judged_count = totals[CAUGHT] + totals[SURVIVED] + totals[NOT_COVERED]
    if judged_count:
        share = totals[CAUGHT] / judged_count
        lines += ["", f"score: {totals[CAUGHT]} of {judged_count} caught, {share:.0%}"]
    for name in FINDINGS:
        if name != CAUGHT and totals[name]:
            lines += ["", f"{name}:"]
            lines += [result.line for result in results if result.found == name]
    return lines


def _level(room: str) -> int:
    return LEVEL.get(room, len(LEVEL))


def rooms_to_draw_from(house: House, requested: Sequence[str]) -> list[str]:
    """The rooms to draw from. Raises SystemExit for an unknown name."""
    rooms = {room_of(source) for source in house.package}
    if unknown := set(requested) - rooms:
        raise SystemExit(f"no such room: {', '.join(sorted(unknown))}; there are {sorted(rooms)}")
    return list(requested) or sorted(rooms - set(OPTIONAL_ROOMS))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--room", nargs="+", action="extend", default=[])
    parser.add_argument("--most-tests", type=int, default=60)
    parser.add_argument("--most-seconds", type=float, default=30.0, help="of tests for a mutant")
    parser.add_argument("--report", type=Path, help="write JSON Lines to this file")
    parser.add_argument("--resume", action="store_true", help="keep what the report has already")
    parser.add_argument(
        "--again", action="store_true", help="but not survivors that more tests are for"
    )
    parser.add_argument("--leave-out", nargs="+", action="extend", default=[], metavar="TEST")
    parser.add_argument("--map", type=Path, help="the folder that the line map is kept in")
    return parser.parse_args()


def main() -> None:
    """Draw, run, report."""
    options = _options()
    house = House.at(ROOT)
    rooms = rooms_to_draw_from(house, options.room)
    lines = line_map(options.map)
    drawn = draw(house.package, rooms, options.count, options.seed)
    plans = planned(drawn, house, lines, options.most_tests, options.most_seconds)
    skipped_rooms = [room for room in OPTIONAL_ROOMS if room not in rooms]
    print(f"{len(plans)} mutants in {PACKAGE}, seed {options.seed}", flush=True)
    if skipped_rooms and not options.room:
        print(f"left out unless asked with --room: {', '.join(skipped_rooms)}", flush=True)
    resumed = options.resume and options.report and options.report.exists()
    previous = known_from(options.report) if resumed else {}
    if options.again:
        for plan in plans:
            outcome = previous.get(plan.mutant)
            if outcome and outcome.found == SURVIVED and outcome.ran < len(plan.tests):
                del previous[plan.mutant]

    def run(runs: Runs, output: TextIO) -> None:
        runs.broken.update(options.leave_out)
        path = options.report or Path(os.devnull)
        with path.open("a" if resumed else "w") as report:
            results = judged(plans, previous, runs, output, report)
        print(*table(results), sep="\n", file=output, flush=True)

    with_tests(run, max(TIME_LIMIT, 2 * options.most_seconds))


if __name__ == "__main__":
    main()
