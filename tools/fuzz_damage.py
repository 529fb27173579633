"""Damage copies of all sample logs at random, and say which batches kfmt loses or makes up.

    python -m tools.fuzz_damage [--mutants 100000] [--seed 1] [--keep DIR]

Ends with 1 where there are any. `tests/log/test_mutations.py` does the same for a few hundred.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.support.mutants import embedding_mutant, judge, mutant_of
from tests.support.samples import every_log
from tests.support.segments import positions

LARGEST = 60_000


def main() -> None:
    """Run the fuzzer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep what went wrong in this folder")
    options = parser.parse_args()
    logs = [log for log in every_log() if 0 < log.stat().st_size < LARGEST]
    originals = [(log, data := log.read_bytes(), positions(data)) for log in logs]
    lost = phantoms = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.mutants):
            log, data, places = originals[number % len(originals)]
            rng = random.Random(f"{options.seed} {number}")
            if number % 5 == 0:
                data, places, mutant = embedding_mutant(rng)
                log = Path(f"{int.from_bytes(data[:8], 'big'):020}.log")
            else:
                mutant = mutant_of(data, places, rng)
            verdict = judge(mutant, data, places, Path(scratch) / log.name)
            if verdict:
                lost += len(verdict.lost)
                phantoms += len(verdict.phantoms)
                print(f"{number} {log}: lost {sorted(verdict.lost)}, made up {verdict.phantoms}")
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{number}.log").write_bytes(mutant.data)
    seconds = time.monotonic() - started
    print(
        f"{options.mutants} mutants of {len(originals)} logs in {seconds:.0f} s: "
        f"{lost} undamaged batches lost, {phantoms} made up"
    )
    raise SystemExit(bool(lost or phantoms))


if __name__ == "__main__":
    main()
