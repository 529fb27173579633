"""What commands say of a log directory while a broker writes it, and once it is quiet."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from tests.support.samples import environment
from tools.kafka import ROOT
from tools.live import Live

SEGMENT_SETTINGS = {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "1500"}
TOPIC_SETTINGS = {
    "deleted": {"retention.bytes": str(2 << 20)},
    "kept": {},
    "compacted": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "20000",
        "delete.retention.ms": "1000",
    },
    "transactional": {"retention.bytes": str(2 << 20)},
}
BROKER_SETTINGS = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "1000",
    "log.retention.check.interval.ms": "3000",
    "log.segment.delete.delay.ms": "1500",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.flush.start.offset.checkpoint.interval.ms": "5000",
    "metadata.log.segment.bytes": str(8 << 20),
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
# Each with the paths and options that a user would give; OUT is a new path.
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("check", "{data}"),
    ("index-check", "{data}"),
    ("verify-crc", "{data}", "--deep"),
    ("check", "{data}/transactional-0"),
    ("stat", "{data}"),
    ("txn", "{data}"),
    ("check", "{data}/compacted-0"),
    ("find", "{data}", "--timestamp", "2020-01-01"),
    ("state", "{data}"),
    ("salvage", "{data}", "{out}"),
    ("check", "{data}/deleted-0", "{data}/kept-0"),
    ("dump", "{data}/deleted-1"),
    ("diff", "{data}", "{data}"),
    ("retention", "{data}"),
    ("check", "{data}", "-j", "2", "--throttle", "4"),
    ("replicas", "{data}"),
    ("compaction", "{data}/compacted-0", "{data}/compacted-1"),
    ("cat", "{data}/deleted-0", "{data}/compacted-0"),
    ("rebuild-index", "{data}/deleted-0", "{data}/compacted-0", "{out}"),
    ("report", "{data}", "--to", "{out}/report.html"),
    ("export", "{data}", "--to", "{out}"),
    ("sql", "select count(*) from findings where severity <> 'note'", "{data}"),
    ("sql", "select count(*) from index_entries", "{data}"),
    ("find", "{data}/compacted-0", "--key", "7"),
    ("index-check", "{data}", "--lookup-offset", "0"),
    ("browse", "{data}"),
)
NO_JSON = {"browse", "export", "rebuild-index", "cat"}


@dataclass
class Tally:
    """The runs of one command, what they found, and how they ended."""

    runs: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    """Findings that are no notes, by severity and code."""
    exit_codes: Counter[int] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    """Lines on standard error, without figures."""
    example_by_code: dict[str, str] = field(default_factory=dict)


def run_reader(command: tuple[str, ...], data: Path, tally: Tally) -> None:
    """Run a command on a directory, and count what it says."""
    with tempfile.TemporaryDirectory(prefix="live-reading-") as scratch:
        arguments = [text.format(data=data, out=f"{scratch}/out") for text in command]
        is_json = command[0] not in NO_JSON
        result = subprocess.run(
            ["nice", "-n", "5", sys.executable, "-m", "kfmt_cli", *arguments]
            + ["--json"] * is_json,
            capture_output=True,
            check=False,
            cwd=ROOT,
            env=environment(),
        )
    tally.runs += 1
    tally.exit_codes[result.returncode] += 1
    last_text = (result.stderr or result.stdout)[-400:].decode(errors="replace")
    tally.example_by_code.setdefault(f"exit code {result.returncode}", last_text)
    for line in result.stderr.decode().splitlines():
        text = "".join("#" if char.isdigit() else char for char in line)
        text = text.replace(str(data), "").rpartition(": ")[2]
        tally.messages[text] += 1
        tally.example_by_code.setdefault(text, line)
    assert b"Traceback" not in result.stderr, result.stderr.decode()
    for json_line in result.stdout.splitlines() if is_json else ():
        row = json.loads(json_line)
        if row.get("type") == "finding" and row["severity"] != "note":
            code = f"{row['severity']} {row['code']}"
            tally.findings[code] += 1
            tally.example_by_code.setdefault(
                code, f"{row['file']} {row['position']} {row['message']}"
            )


class Load(threading.Thread):
    """Produces, deletes, compacts, commits and aborts, about `rate` records a second."""

    def __init__(self, broker: Live, rate: int) -> None:
        super().__init__(daemon=True)
        self._address, self._rate = broker.address, rate
        self._stop_requested = threading.Event()
        self.records = 0
        self.error: BaseException | None = None

    def create_topics(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        topics = [
            NewTopic(name, 2, 1, config={**SEGMENT_SETTINGS, **settings})
            for name, settings in TOPIC_SETTINGS.items()
        ]
        admin = AdminClient({"bootstrap.servers": self._address})
        for future in admin.create_topics(topics).values():
            future.result()

    def stop(self) -> None:
        """End the load; raises what it failed with."""
        self._stop_requested.set()
        self.join(60)
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            self._produce()
        except BaseException as error:
            self.error = error

    def _produce(self) -> None:
        from confluent_kafka import Consumer, Producer

        client = {"bootstrap.servers": self._address, "linger.ms": 5}
        plain = Producer({**client, "compression.type": "lz4", "enable.idempotence": True})
        transactional = Producer({**client, "transactional.id": "load"})
        transactional.init_transactions(30)
        consumer = Consumer({"bootstrap.servers": self._address, "group.id": "readers"})
        consumer.subscribe(["kept"])
        choices = random.Random(1)
        while not self._stop_requested.is_set():
            start = time.monotonic()
            for _ in range(self._rate // 10):
                self.records += 1
                value = choices.randbytes(choices.randrange(20, 400))
                key = str(choices.randrange(500))
                plain.produce("deleted", value, key=key)
                plain.produce("compacted", None if self.records % 97 == 0 else value, key=key)
                if self.records % 4 == 0:
                    plain.produce("kept", value, key=key)
            plain.poll(0)
            consumer.consume(200, 0.01)
            transactional.begin_transaction()
            for _ in range(20):
                transactional.produce("transactional", value)
            if choices.random() < 0.3:
                transactional.flush(10)
                transactional.abort_transaction(30)
            else:
                transactional.commit_transaction(30)
            time.sleep(max(0.0, 0.1 - (time.monotonic() - start)))
        plain.flush(30)
        consumer.close()


def read_in_turn(
    data: Path, is_over: Callable[[], bool], n_processes: int
) -> dict[tuple[str, ...], Tally]:
    """Run each command in turn on several processes until it is over, each at least once."""
    tally_by_command = {command: Tally() for command in COMMANDS}
    turns = cycle(COMMANDS)
    lock = threading.Lock()
    started = Counter[tuple[str, ...]]()

    def next_command() -> tuple[str, ...] | None:
        with lock:
            command = next(turns)
            started[command] += 1
            return None if started[command] > 1 and is_over() else command

    def read() -> None:
        while (command := next_command()) is not None:
            own_tally = Tally()
            run_reader(command, data, own_tally)
            with lock:
                _add(tally_by_command[command], own_tally)

    threads = [threading.Thread(target=read) for _ in range(n_processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally_by_command


def _add(total: Tally, tally: Tally) -> None:
    total.runs += tally.runs
    total.findings += tally.findings
    total.exit_codes += tally.exit_codes
    total.messages += tally.messages
    total.example_by_code = {**tally.example_by_code, **total.example_by_code}


def quiet_tallies(data: Path, scratch: Path) -> dict[tuple[str, ...], Tally]:
    """What each command says of a copy of the directory, which nobody writes."""
    copy = scratch / "quiet"
    shutil.copytree(data, copy)
    tally_by_command = {}
    for command in COMMANDS:
        tally_by_command[command] = Tally()
        run_reader(command, copy, tally_by_command[command])
    return tally_by_command


def iter_false_statements(live: Tally, quiet: Tally) -> Iterator[str]:
    """The findings and exit codes that a quiet directory does not have."""
    for code, count in live.findings.items():
        if code not in quiet.findings:
            yield f"{count} × {code}: {live.example_by_code[code]}"
    for exit_code, count in live.exit_codes.items():
        if exit_code not in quiet.exit_codes:
            example = live.example_by_code[f"exit code {exit_code}"]
            yield f"{count} × exit code {exit_code}: {example}"


def format_table(
    live: dict[tuple[str, ...], Tally], quiet: dict[tuple[str, ...], Tally]
) -> Iterator[str]:
    """A line for each command: its runs, the false findings and the false exit codes."""
    yield f"{'command':62} {'runs':>5} {'false findings':>14} {'false exit codes':>16}"
    for command, tally in live.items():
        quiet_tally = quiet[command]
        n_findings = sum(
            count for code, count in tally.findings.items() if code not in quiet_tally.findings
        )
        n_exits = sum(
            count for code, count in tally.exit_codes.items() if code not in quiet_tally.exit_codes
        )
        text = " ".join(command).format(data="D", out="OUT")
        yield f"{text:62.62} {tally.runs:5} {n_findings:14} {n_exits:16}"
