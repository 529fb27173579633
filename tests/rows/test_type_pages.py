"""Row types are read from pages; what a page says wrongly is found at import."""

from __future__ import annotations

import pytest

from kfmt_cli.core.layout.field import MS_UNIT, OFFSET_UNIT
from kfmt_cli.rows.column import Column, ColumnKind, LocationSource, RowType
from kfmt_cli.rows.type_pages import read_row_types

PAGE = """# Title

Words.

## Chapter

### thing (of a file, 2 key columns)

A thing.

| column | kind | |
|---|---|---|
| file | text | The file. |
| offset | number, offset, nullable, minor, heading from | Its offset, or none. |
| time | time, optional, from time_ms | When. |
| small | number, 32 bits, if is_small | A number. |

### empty

Nothing.
"""


def read(text: str) -> dict[str, RowType]:
    return {name: type_ for types in read_row_types(text).values() for name, type_ in types.items()}


def test_each_word_of_a_kind_is_an_attribute() -> None:
    row_type, empty_type = read(PAGE).values()
    assert (row_type.name, row_type.doc, row_type.n_key_columns) == ("thing", "A thing.", 2)
    assert row_type.location_source is LocationSource.FILE
    assert row_type.columns == (
        Column("file", ColumnKind.TEXT, "The file."),
        Column(
            "offset",
            doc="Its offset, or none.",
            presence_column="has_offset",
            unit=OFFSET_UNIT,
            is_minor=True,
            heading="from",
        ),
        Column(
            "time",
            doc="When.",
            source="time_ms",
            present_if=("has_time", 1),
            null_value=-1,
            unit=MS_UNIT,
        ),
        Column("small", doc="A number.", n_bits=32, present_if=("is_small", 1)),
    )
    assert (empty_type.columns, empty_type.location_source) == ((), LocationSource.NO_LOCATION)


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("nullable", "nulable", "offset: an unknown word in a kind: nulable"),
        ("### thing (", "### thing, ", "not the heading of a type"),
    ],
)
def test_a_slip_is_named(before: str, after: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read(PAGE.replace(before, after))


@pytest.mark.parametrize(("before", "after"), [("| text |", "| txt |"), ("of a file", "of a fil")])
def test_an_unknown_kind_is_an_error(before: str, after: str) -> None:
    with pytest.raises(KeyError, match=after.strip("| ")):
        read(PAGE.replace(before, after))
