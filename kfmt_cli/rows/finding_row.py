"""What is shown of a finding."""

from __future__ import annotations

from kfmt_cli.findings.finding import Code, Finding
from kfmt_cli.rows.documents import FINDING

_OF_CODE = ("after_crash", "after_clean_shutdown", "advice")


def finding_row(finding: Finding) -> dict[str, object]:
    """The finding as the JSON contract has it, without its type."""
    code = finding.code
    of_code = {"code": code.name, "severity": code.severity.value}
    of_code |= {name: getattr(code, name) for name in _OF_CODE}
    names = (column.name for column in FINDING.columns)
    return {name: of_code[name] if name in of_code else getattr(finding, name) for name in names}


def left_out_row(file: str, code: Code, number: int) -> dict[str, object]:
    """How many findings of a kind in a file are not shown, without its type."""
    return {"file": file, "code": code.name, "severity": code.severity.value, "count": number}
