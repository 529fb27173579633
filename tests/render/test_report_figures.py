"""The figures on the page of `report`: what they draw of many rows."""

from __future__ import annotations

import pytest

from kfmt_cli.commands.report.page import figures as figures_module
from kfmt_cli.commands.report.page.figures import PageFigures, add_treemap
from kfmt_cli.commands.report.page.page_data import PageData


def page_data(sizes: list[int]) -> PageData:
    """Partitions of a topic with these bytes."""
    data = PageData()
    for partition, n_bytes in enumerate(sizes):
        row = {"type": "stat", "file": f"t-{partition}", "topic": "t", "partition": partition}
        data.add_object({**row, "bytes": n_bytes})
    return data


@pytest.mark.parametrize(
    ("limit", "tiles"), [(1, [("t-2", 9)]), (2, [("t-2", 9), ("t-0", 5)]), (3, None), (4, None)]
)
def test_the_treemap_has_the_largest_partitions_up_to_its_limit(
    limit: int, tiles: list[tuple[str, int]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures_module, "MAX_TREEMAP_TILES", limit)
    figures = PageFigures()
    add_treemap(figures, page_data([5, 0, 9, 4]))
    drawn = [
        (row["label"], row["bytes"])
        for row in figures.rows_by_table["areas"]
        if str(row["id"]).startswith("partition")
    ]
    assert drawn == (tiles or [("t-2", 9), ("t-0", 5), ("t-3", 4)])
    (figure,) = figures.figures_by_section["topics"]
    assert figure.caption == "t-2 is the largest partition: 9 B, 50% of 18 B."


@pytest.mark.parametrize("sizes", [[], [0], [0, 0]])
def test_there_is_no_treemap_of_nothing(sizes: list[int]) -> None:
    figures = PageFigures()
    add_treemap(figures, page_data(sizes))
    assert not figures.rows_by_table
