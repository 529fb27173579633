"""Checkpoints: what `check` calls malformed is what a starting broker refuses."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kfmt_cli.broker.start.checkpoints import (
    CheckpointError,
    CheckpointNumberError,
    read_checkpoint_offsets,
    read_epoch_entries,
)
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.kinds.checkpoint import read_checkpoint
from kfmt_cli.errors import WrongFileKindError

# Java's parseInt, split and readLine differ from Python's int, split and splitlines.
NUMBERS = st.sampled_from(["0", "1", "00", "+1", "-1", "0_0", "\u0660", "\u00b2", "x", ""])
SPACES = st.sampled_from([" ", "  ", "\t", "\u00a0", "\x1c"])
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r", "\x85", "\x0b"])


def entry(*values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A line, perhaps with white space before and after its values."""
    gaps = [st.just("") | SPACES, *(SPACES for _ in values[1:]), st.just("") | SPACES]
    parts = [part for pair in zip(gaps, values, strict=False) for part in pair]
    return st.tuples(*parts, gaps[-1]).map("".join)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "recovery-point-offset-checkpoint"])
@given(data=st.data())
def test_what_is_malformed_is_what_a_broker_refuses(name: str, data: st.DataObject) -> None:
    is_of_epochs = name.startswith("leader")
    value = (NUMBERS, NUMBERS) if is_of_epochs else (st.just("t"), NUMBERS, NUMBERS)
    lines = [data.draw(entry(NUMBERS)) for _ in range(2)]
    lines += data.draw(st.lists(entry(*value), max_size=2))
    content = "".join(line + data.draw(LINE_ENDS) for line in lines).encode()
    check_both_readers(name, content)


@given(content=st.binary(max_size=12))
@example(content=b"0\n1\n\xff 0 0\n")
@example(content=b"0\n1\n\n")
def test_any_bytes_are_judged_alike(content: bytes) -> None:
    check_both_readers("recovery-point-offset-checkpoint", content)


def check_both_readers(name: str, content: bytes) -> None:
    """The file's findings and the broker's reader agree, but for a file that ends early: a broker
    creates none."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(content)
        file = classify_file(str(path), name)
        read = read_epoch_entries if name.startswith("leader") else read_checkpoint_offsets
        try:
            read(file)
            is_refused = False
        except (CheckpointError, CheckpointNumberError):
            is_refused = True
        except WrongFileKindError:  # text that begins like another kind of file
            return
        findings = read_checkpoint(file).findings
    if not any("ends before the entry count" in finding.message for finding in findings):
        assert bool(findings) == is_refused, (content, findings)
