"""Kinds of findings are read from a page; what the page says wrongly is found at import."""

from __future__ import annotations

import pytest

from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Mend, Severity

PAGE = """# Findings

## Logs

### `bit-flipped`

**error** · A bit is flipped.

- *after a crash*: One.
- *clean shutdown*: Two.
- *what to do*: Three.
- *mended by*: kfmt rebuild-index

### `bit-spare`

**note** · A bit is spare.

- *next start*: Nothing.
"""


def test_an_entry_has_severity_meaning_and_consequences() -> None:
    ((subject, (flipped, spare)),) = codes.parse_codes(PAGE)
    assert subject == "Logs"
    assert (flipped.name, flipped.severity) == ("bit-flipped", Severity.ERROR)
    assert flipped.meaning == "A bit is flipped."
    assert flipped.mends == {Mend.REBUILD_INDEXES}
    assert flipped.consequences == [
        ("after a crash", "One."),
        ("clean shutdown", "Two."),
        ("what to do", "Three."),
    ]
    assert (spare.after_crash, spare.after_clean_shutdown) == ("Nothing.", "Nothing.")
    assert spare.consequences == [("next start", "Nothing.")]
    assert (spare.advice, spare.mends) == (None, frozenset())


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("**error**", "**eror**", "does not begin with its code"),
        ("*what to do*", "*to do*", "bit-flipped: unknown items: to do"),
        ("kfmt rebuild-index", "kfmt rebuild", "is not a valid Mend"),
    ],
)
def test_a_slip_is_named(before: str, after: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        list(codes.parse_codes(PAGE.replace(before, after)))


def test_what_mends_a_finding_is_in_its_advice() -> None:
    for code in codes.finding_code_by_name().values():
        for mend in code.mends:
            assert code.advice is not None
            assert mend.value in code.advice
        names_a_rebuild = code.advice is not None and "run kfmt rebuild-index" in code.advice
        assert bool(code.mends) == names_a_rebuild
