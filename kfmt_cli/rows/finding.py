"""What is shown of a finding."""

from __future__ import annotations

from collections.abc import Mapping

from kfmt_cli.findings.finding import Code, Finding

# Names of the JSON contract, with what they say.
FINDING: Mapping[str, str] = {
    "file": "The file, as the user named it.",
    "code": "Kind of finding, see findings.md.",
    "severity": "error, warning or note.",
    "position": "Byte in the file.",
    "offset": "The offset that it concerns.",
    "message": "What was found, in words.",
    "expected": "What should be there.",
    "found": "What is there.",
    "after_crash": "What a broker does that recovers the log.",
    "after_clean_shutdown": "What one does after a clean shutdown.",
    "advice": "What to do.",
}
_OF_CODE = ("after_crash", "after_clean_shutdown", "advice")


def finding_row(finding: Finding) -> dict[str, object]:
    """The finding as the JSON contract has it, without its type."""
    code = finding.code
    of_code = {"code": code.name, "severity": code.severity.value}
    of_code |= {name: getattr(code, name) for name in _OF_CODE}
    return {name: of_code[name] if name in of_code else getattr(finding, name) for name in FINDING}


def left_out_row(file: str, code: Code, number: int) -> dict[str, object]:
    """How many findings of a kind in a file are not shown, without its type."""
    return {"file": file, "code": code.name, "severity": code.severity.value, "count": number}
