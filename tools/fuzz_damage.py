"""Damage copies of all sample logs at random, and report batches that kfmt loses or makes up.

    python -m tools.fuzz_damage [--mutants 100000] [--seed 1] [--keep DIR]

The exit code is 1 if there are any. `tests/log/test_mutations.py` runs a few hundred mutants.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.support.mutants import check_mutant, embedding_mutant, mutant_of
from tests.support.samples import every_log
from tests.support.segments import positions

MAX_LOG_BYTES = 60_000


def main() -> None:
    """Run the fuzzer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep what went wrong in this folder")
    options = parser.parse_args()
    logs = [log for log in every_log() if 0 < log.stat().st_size < MAX_LOG_BYTES]
    originals = [(log, data := log.read_bytes(), positions(data)) for log in logs]
    n_lost = n_phantoms = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for index in range(options.mutants):
            log, data, batch_positions = originals[index % len(originals)]
            rng = random.Random(f"{options.seed} {index}")
            if index % 5 == 0:
                data, batch_positions, mutant = embedding_mutant(rng)
                log = Path(f"{int.from_bytes(data[:8], 'big'):020}.log")
            else:
                mutant = mutant_of(data, batch_positions, rng)
            verdict = check_mutant(mutant, data, batch_positions, Path(scratch) / log.name)
            if verdict:
                n_lost += len(verdict.lost)
                n_phantoms += len(verdict.phantoms)
                print(f"{index} {log}: lost {sorted(verdict.lost)}, made up {verdict.phantoms}")
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{index}.log").write_bytes(mutant.data)
    seconds = time.monotonic() - started
    print(
        f"{options.mutants} mutants of {len(originals)} logs in {seconds:.0f} s: "
        f"{n_lost} undamaged batches lost, {n_phantoms} made up"
    )
    raise SystemExit(bool(n_lost or n_phantoms))


if __name__ == "__main__":
    main()
