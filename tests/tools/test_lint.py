"""The rules of the house find what breaks them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint import RULES, House, names_are_public_terms, no_circles

FILES = {
    "README.md": "# kfmt\n",
    "docs/architecture.md": "The house.\n",
    "CONTRIBUTING.md": "Tests.\n",
    "kfmt_cli/core/times.py": '"""Times."""\n',
    "kfmt_cli/log/reader.py": '"""Reads."""\nfrom kfmt_cli.core import times\n',
}
LONG = "def long() -> None:\n" + "    print()\n" * 70
BROKEN = {
    "imports_point_down": ("kfmt_cli/core/up.py", '"""Up."""\nimport kfmt_cli.log.reader\n'),
    "no_circles": (
        "kfmt_cli/core/times.py",
        '"""Times."""\nfrom kfmt_cli.log import reader\n',
    ),
    "files_are_short_and_say_their_job": ("kfmt_cli/core/mute.py", "x = 1\n"),
    "functions_are_short": ("kfmt_cli/core/long.py", f'"""Long."""\n{LONG}'),
    "names_say_one_thing": ("tests/test_a.py", "it = 1\n"),
    "names_are_public_terms": ("kfmt_cli/core/held.py", '"""Held."""\n'),
    "pages_name_what_exists": ("CONTRIBUTING.md", "| `KINDS`, `core/times.py` |\n"),
    "inputs_are_listed_in_one_place": (
        "kfmt_cli/log/there.py",
        '"""There."""\nfrom pathlib import Path\nFILES = list(Path("x").glob("*.log"))\n',
    ),
    "objects_keep_what_changes": (
        "kfmt_cli/disk/there.py",
        '"""There."""\n_KNOWN: dict[str, str] = {}\ndef know(x: str) -> None:\n    _KNOWN[x] = x\n',
    ),
    "members_are_attributes": (
        "kfmt_cli/log/rows.py",
        '"""Rows."""\n' + 'def f(row: dict[str, int]) -> int:\n    return row["a"]\n' * 500,
    ),
    "docstrings_name_what_exists": (
        "kfmt_cli/log/rows.py",
        '"""Rows; `read_rows` reads them."""\ndef iter_rows() -> None:\n    """Iterate."""\n',
    ),
    "pages_are_in_plain_english": ("docs/ci.md", "It goes on.\n"),
    "pages_keep_their_length": ("README.md", "x\n" * 500),
}


@pytest.mark.parametrize(
    "code",
    [
        *(
            "class WordsOfUser: ...",
            "def take(told: int) -> None: ...",
            "def is_held() -> None: ...",
        ),
        "class A:\n    seam_end: int",
        "class A:\n    def f(self) -> None:\n        self.rows_so_far = 1",
    ],
)
def test_private_words_are_found_in_every_kind_of_name(code: str, tmp_path: Path) -> None:
    broken = house(tmp_path, **{"kfmt_cli/core/rows.py": f'"""Rows."""\n{code}\n'})
    [line] = names_are_public_terms(broken)
    assert "is private; see docs/vocabulary.md" in line


@pytest.mark.parametrize(
    "code", ["found = 1", "def f(found: int) -> None: ...", "class NotFoundError: ..."]
)
def test_locals_and_exceptions_are_left_to_readers(code: str, tmp_path: Path) -> None:
    tidy = house(tmp_path, **{"kfmt_cli/core/rows.py": f'"""Rows."""\n{code}\n'})
    assert list(names_are_public_terms(tidy)) == []


def house(root: Path, **more: str) -> House:
    """A small checkout."""
    for name, text in {**FILES, **more}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return House.at(root)


def test_a_house_in_order_breaks_no_rule(tmp_path: Path) -> None:
    assert [words for rule in RULES for words in rule(house(tmp_path))] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_finds_what_breaks_it(rule: object, tmp_path: Path) -> None:
    name, text = BROKEN[rule.__name__]  # type: ignore[attr-defined]
    broken = house(tmp_path, **{name: text})
    found = {each.__name__: list(each(broken)) for each in RULES}
    assert found[rule.__name__]  # type: ignore[attr-defined]


def test_packages_of_a_room_do_not_import_each_other(tmp_path: Path) -> None:
    """Not even by way of different files; commands may run each other."""
    files = {
        f"kfmt_cli/{room}/{package}/{name}.py": f'"""Job."""\n{line}\n'
        for room in ("broker", "commands")
        for package, name, line in (
            ("start", "load", f"from kfmt_cli.{room}.cluster import image"),
            ("start", "outcome", ""),
            ("cluster", "image", ""),
            ("cluster", "election", f"from kfmt_cli.{room}.start import outcome"),
        )
    }
    [line] = no_circles(house(tmp_path, **files))
    assert line.removeprefix("a circle: ").split(" → ")[:2] == [
        "kfmt_cli.broker.cluster",
        "kfmt_cli.broker.start",
    ]
