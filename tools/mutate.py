"""Mutation testing: small faults in the package, and whether a test notices each of them.

    python -m tools.mutate [--seed N] [--count 200] [--room NAME …] [--most-tests 60]
                           [--most-seconds 30] [--report FILE.jsonl] [--resume [--again]]
                           [--leave-out TEST …] [--map FOLDER]

A mutant (tools/mutants.py) is put before the tests that execute its line (tools/line_map.py).
They run in a fork of a process that has collected all tests; where the line runs at import, in a
new process. Every 20th run has no mutant and must pass, and so must a test that catches one when it
runs without it. Compiled modules and Spark are left out unless asked for; the former run as Python
then, and as nobody sees their lines run, with tests of what imports them. --resume goes on with a
report; with --again, what survived a part of its tests is run with more of them, if --most-tests
and --most-seconds allow more.
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
from tools.mutant_runs import LIMIT, Outcome, Runs, with_tests
from tools.mutants import Mutant, mutants

ASKED_ONLY = ("native", "spark")  # rooms
CONTROL = 20
NEAR = 8  # tests of a file in the mutant's room are taken for one of a file elsewhere


@dataclass(frozen=True)
class Plan:
    """A mutant and the tests for it. fresh: in a new process, as its line runs at import."""

    mutant: Mutant
    room: str
    tests: list[str]
    fresh: bool


@dataclass(frozen=True)
class Result:
    """What became of a mutant: caught, survived, timed out, or not covered."""

    plan: Plan
    outcome: Outcome

    @property
    def found(self) -> str:
        """In a word or two."""
        return self.outcome.found

    @property
    def line(self) -> str:
        """For people."""
        mutant, outcome = self.plan.mutant, self.outcome
        end = f"  [by {outcome.by}]" if outcome.by else ""
        if self.found == "survived":
            end = f"  [{outcome.ran} tests]"
        words = f"{mutant.before}  →  {mutant.after}"
        return f"{self.found:<11} {mutant.file}:{mutant.line} {mutant.kind}: {words}{end}"

    @property
    def json(self) -> str:
        """For programs."""
        its = {**asdict(self.plan.mutant), "room": self.plan.room, "fresh": self.plan.fresh}
        return json.dumps(
            {**its, **asdict(self.outcome), "tests": self.plan.tests}, ensure_ascii=False
        )


def room_of(source: Source) -> str:
    """The room of a source; compiled modules are one of their own."""
    return "native" if source.path.with_suffix(".pyi").exists() else source.room


def draw(sources: Iterable[Source], rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Mutants spread over the rooms by their lines of code, never two in one function."""
    by_room: defaultdict[str, list[Source]] = defaultdict(list)
    for source in sources:
        if room_of(source) in rooms:
            by_room[room_of(source)].append(source)
    lines = {room: sum(len(each.text.splitlines()) for each in by_room[room]) for room in by_room}
    drawn: list[Mutant] = []
    for room, n in shares(lines, count).items():
        drawn += _draw_of_room(by_room[room], n, random.Random(f"{seed} {room}"))
    random.Random(seed).shuffle(drawn)
    return drawn


def shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """`count` split by size; what rounding leaves goes to the largest remainders."""
    total = sum(sizes.values()) or 1
    exact = {name: count * size / total for name, size in sizes.items()}
    found = {name: int(share) for name, share in exact.items()}
    rest = sorted(exact, key=lambda name: (found[name] - exact[name], name))
    for name in rest[: count - sum(found.values())]:
        found[name] += 1
    return found


def _draw_of_room(sources: Sequence[Source], count: int, rng: random.Random) -> list[Mutant]:
    """Functions by how much can be changed in them; of each a kind, and one mutant of the kind."""
    by_function: defaultdict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for source in sources:
        for mutant in mutants(source.text, source.name):
            by_function[mutant.file, mutant.function].append(mutant)
    # Without putting back.
    weighted = sorted(by_function, key=lambda key: -(rng.random() ** (1 / len(by_function[key]))))
    drawn = []
    for key in weighted[:count]:
        of_kind: defaultdict[str, list[Mutant]] = defaultdict(list)
        for mutant in by_function[key]:
            of_kind[mutant.kind].append(mutant)
        drawn.append(rng.choice(of_kind[rng.choice(sorted(of_kind))]))
    return drawn


def planned(
    drawn: Sequence[Mutant], house: House, lines: LineMap, most: int, most_seconds: float
) -> list[Plan]:
    """The tests for each mutant, in the order of the mutants."""
    sources = {source.name: source for source in house.package}
    plans: dict[Mutant, Plan] = {}
    for file in {mutant.file for mutant in drawn}:
        tests_of = lines.tests_of(house.root / file)
        whole = set().union(*tests_of.values()) - {""} or _of_importers(sources[file], house, lines)
        room = room_of(sources[file])
        for mutant in drawn:
            if mutant.file == file:
                found = tests_of.get(mutant.line) or tests_of.get(mutant.statement_line, set())
                is_seen = not mutant.at_import and room != "native"  # where lines are recorded
                tests = found - {""} if is_seen else set()
                fresh = not is_seen or "" in found
                tests = tests or whole if fresh else tests
                near = f"tests/{sources[file].room}/"
                chosen = spread(tests, lines.seconds, most, most_seconds, near)
                plans[mutant] = Plan(mutant, room, chosen, fresh)
    return [plans[mutant] for mutant in drawn]


def _of_importers(source: Source, house: House, lines: LineMap) -> set[str]:
    """The tests that execute a line of a file that imports this one; compiled modules call each
    other, so for one of them those of files that import any."""
    names = {each.dotted: each for each in house.package}
    those = {source.dotted}
    if room_of(source) == "native":
        those = {each.dotted for each in house.package if room_of(each) == "native"}
    found: set[str] = set()
    for other in house.package:
        if those & other.at_run_time(names):
            found = found.union(*lines.tests_of(other.path).values())
    return found - {""}


def spread(
    tests: Iterable[str], seconds: dict[str, float], most: int, most_seconds: float, near: str
) -> list[str]:
    """At most so many tests, of some seconds altogether: the cheapest of every file, then the
    second of each, and so on; of files in the folder `near`, some at once. Those of a file stay
    together, for the fixtures that they share; cheap files come first."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        by_file[test.split("::", 1)[0]].append(test)
    ranked = sorted(
        (rank // (NEAR if test.startswith(near) else 1), seconds[test], test)
        for of_file in by_file.values()
        for rank, test in enumerate(of_file)
    )
    until = accumulate(cost for _, cost, _ in ranked[:most])
    n = sum(cost <= most_seconds for cost in until)
    chosen = {test for _, _, test in ranked[:n]}
    files = [[test for test in of_file if test in chosen] for of_file in by_file.values()]
    files.sort(key=lambda of_file: (sum(seconds[test] for test in of_file), of_file))
    return [test for of_file in files for test in of_file]


def judge(plan: Plan, runs: Runs, out: TextIO) -> Result:
    """Run a mutant's tests. What catches it must pass after the same tests without it, or is left
    out: an earlier test leaves something to it, or it fails now and then."""
    tests = [test for test in plan.tests if test not in runs.broken]
    mutant = plan.mutant
    while tests:
        outcome = runs.run(tests, (mutant.file, mutant.number), plan.fresh)
        if outcome.found == "survived" or outcome.by not in (*tests, ""):
            return Result(plan, outcome)
        failed = runs.failing(tests[: outcome.ran or None], plan.fresh)
        if not failed:
            return Result(plan, outcome)
        print(f"left out    {failed}: it fails without a mutant", file=out, flush=True)
        runs.broken.add(failed)
        tests.remove(failed)
    return Result(plan, Outcome("not covered"))


def judged(
    plans: Sequence[Plan], known: dict[Mutant, Outcome], runs: Runs, out: TextIO, report: TextIO
) -> list[Result]:
    """The results of all mutants, each said as soon as it is known. Raises SystemExit when tests
    fail without one."""
    results = []
    for number, plan in enumerate(plans):
        if plan.mutant in known:
            results.append(Result(plan, known[plan.mutant]))
            continue
        results.append(judge(plan, runs, out))
        print(results[-1].line, file=out, flush=True)
        print(results[-1].json, file=report, flush=True)
        if number % CONTROL == 0:
            tests = [test for test in plan.tests if test not in runs.broken]
            control = runs.run(tests, None, plan.fresh) if tests else Outcome("survived")
            print(f"control     {control.ran} tests, {control.seconds:.1f} s", file=out, flush=True)
            if control.found != "survived":
                raise SystemExit(f"without a mutant: {control.found} {control.by} {control.why}")
    return results


def known_from(report: Path) -> dict[Mutant, Outcome]:
    """What earlier runs wrote down; the last word on a mutant counts."""
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    of_mutant, of_outcome = ([field.name for field in fields(each)] for each in (Mutant, Outcome))
    return {
        Mutant(**{name: row[name] for name in of_mutant}): Outcome(
            **{name: row[name] for name in of_outcome}
        )
        for row in rows
    }


def table(results: Sequence[Result]) -> list[str]:
    """By room, what was found; then the survivors."""
    columns = ("caught", "timed out", "survived", "not covered")
    counts = Counter((result.plan.room, result.found) for result in results)
    rooms = sorted({result.plan.room for result in results}, key=lambda room: (_level(room), room))
    lines = ["", f"{'room':<12}{'made':>8}" + "".join(f"{name:>14}" for name in columns)]
    for room in (*rooms, "all"):
        numbers = [
            sum(n for (where, what), n in counts.items() if what == name and room in (where, "all"))
            for name in columns
        ]
        lines.append(f"{room:<12}{sum(numbers):>8}" + "".join(f"{n:>14}" for n in numbers))
    for name in ("survived", "not covered"):
        lines += ["", f"{name}:"]
        lines += [result.line for result in results if result.found == name]
    return lines


def _level(room: str) -> int:
    return LEVEL.get(room, len(LEVEL))


def rooms_asked(house: House, asked: Sequence[str]) -> list[str]:
    """The rooms to draw from. Raises SystemExit for a name that is none."""
    known = {room_of(source) for source in house.package}
    if unknown := set(asked) - known:
        raise SystemExit(f"no such room: {', '.join(sorted(unknown))}; there are {sorted(known)}")
    return list(asked) or sorted(known - set(ASKED_ONLY))


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
    rooms = rooms_asked(house, options.room)
    lines = line_map(options.map)
    drawn = draw(house.package, rooms, options.count, options.seed)
    plans = planned(drawn, house, lines, options.most_tests, options.most_seconds)
    left_out = [room for room in ASKED_ONLY if room not in rooms]
    print(f"{len(plans)} mutants in {PACKAGE}, seed {options.seed}", flush=True)
    if left_out and not options.room:
        print(f"left out unless asked with --room: {', '.join(left_out)}", flush=True)
    resumed = options.resume and options.report and options.report.exists()
    known = known_from(options.report) if resumed else {}
    if options.again:
        for plan in plans:
            before = known.get(plan.mutant)
            if before and before.found == "survived" and before.ran < len(plan.tests):
                del known[plan.mutant]

    def run(runs: Runs, out: TextIO) -> None:
        runs.broken.update(options.leave_out)
        path = options.report or Path(os.devnull)
        with path.open("a" if resumed else "w") as report:
            results = judged(plans, known, runs, out, report)
        print(*table(results), sep="\n", file=out, flush=True)

    with_tests(run, max(LIMIT, 2 * options.most_seconds))


if __name__ == "__main__":
    main()
