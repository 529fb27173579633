"""The row of a finding."""

from __future__ import annotations

from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.rows.documents import FINDING, row_of

_OF_CODE = ("after_crash", "after_clean_shutdown", "advice")


def of_code(code: Code) -> dict[str, object]:
    """What a kind of finding is, by the names of the JSON contract."""
    names = {"code": code.name, "severity": code.severity.value}
    return {**names, **{name: getattr(code, name) for name in _OF_CODE}}


def finding_row(finding: Finding) -> dict[str, object]:
    """The finding's row in the JSON contract, without its type."""
    return row_of(FINDING, finding, of_code(finding.code))


def left_out_row(file: str, code: Code, number: int) -> dict[str, object]:
    """The row that counts a file's findings of a kind that are not shown, without its type."""
    return {"file": file, "code": code.name, "severity": code.severity.value, "count": number}
