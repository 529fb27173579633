"""The row of a finding."""

from __future__ import annotations

from kfmt_cli.findings.finding import Finding, FindingCode
from kfmt_cli.rows.documents import FINDING_ROW, build_row

_CONSEQUENCE_NAMES = ("after_crash", "after_clean_shutdown", "advice")


def finding_code_members(code: FindingCode) -> dict[str, object]:
    """The members that describe a kind of finding, by the names of the JSON contract."""
    members = {"code": code.name, "severity": code.severity.value}
    return {**members, **{name: getattr(code, name) for name in _CONSEQUENCE_NAMES}}


def finding_row(finding: Finding) -> dict[str, object]:
    """The finding's row in the JSON contract, without its type."""
    return build_row(FINDING_ROW, finding, finding_code_members(finding.code))


def suppressed_findings_row(file: str, code: FindingCode, n_suppressed: int) -> dict[str, object]:
    """The row that counts a file's findings of a kind that are not shown, without its type."""
    return {"file": file, "code": code.name, "severity": code.severity.value, "count": n_suppressed}
