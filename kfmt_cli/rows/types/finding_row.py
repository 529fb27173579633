"""The row of a finding."""

from __future__ import annotations

from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.rows.documents import FINDING

_OF_CODE = ("after_crash", "after_clean_shutdown", "advice")


def finding_row(finding: Finding) -> dict[str, object]:
    """The finding's row in the JSON contract, without its type."""
    code = finding.code
    of_code = {"code": code.name, "severity": code.severity.value}
    of_code |= {name: getattr(code, name) for name in _OF_CODE}
    names = (column.name for column in FINDING.columns)
    return {name: of_code[name] if name in of_code else getattr(finding, name) for name in names}


def left_out_row(file: str, code: Code, number: int) -> dict[str, object]:
    """The row that counts a file's findings of a kind that are not shown, without its type."""
    return {"file": file, "code": code.name, "severity": code.severity.value, "count": number}
