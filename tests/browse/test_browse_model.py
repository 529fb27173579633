"""The browser's model without a screen: block indexes, rows, contents, searches."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from kfmt_cli.browse.batch_filter import parse_batch_filter
from kfmt_cli.browse.block_index import BlockIndex
from kfmt_cli.browse.byte_lines import ByteLines, field_rows, format_field_row
from kfmt_cli.browse.command_line import ViewKind, ViewState, format_command
from kfmt_cli.browse.directory_page import directory_page_lines
from kfmt_cli.browse.disk_nodes import build_disk_tree
from kfmt_cli.browse.help_page import DESCRIPTION_INDENT, help_lines
from kfmt_cli.browse.log_row_view import MAX_CACHED_BLOCKS, LogRowView
from kfmt_cli.browse.log_search import (
    HEX_SEARCH,
    KEY_ONLY,
    REGEX_SEARCH,
    TEXT_SEARCH,
    VALUE_ONLY,
    PartitionSearch,
    SearchTerm,
)
from kfmt_cli.browse.navigation import (
    GO_TO_BYTE,
    GO_TO_OFFSET,
    GO_TO_TIME,
    GoToTarget,
    parse_go_to_target,
)
from kfmt_cli.browse.partition_checks import CheckState
from kfmt_cli.disk.directory_listing import classify_file
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.log.reader import LogReader
from tests.support.outlines import (
    ANSI,
    DAMAGED,
    GROUPS,
    big_log,
    block_index,
    log_row_view,
    selected_batch,
    without_ansi,
)
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS, TXN, UPGRADED, every_log, kfmt
from tests.support.segments import write
from tools.kafka import ROOT

# Block indexes and rows.


@pytest.mark.parametrize(
    "log", [*every_log(), *DAMAGED], ids=lambda log: str(log.relative_to(ROOT))
)
def test_rows_are_the_batches_of_the_reader(log: Path) -> None:
    source = open_source(str(log))
    base_offset = classify_file(str(log), log.name).base_offset if log.suffix == ".log" else None
    expected = [
        (int(position), int(batch_number))
        for block in LogReader(source, base_offset).iter_blocks()
        for position, batch_number in zip(block.batches.position, block.batches.number, strict=True)
    ]
    source.close()
    if not log.stat().st_size:
        return
    log_view = log_row_view(log)
    assert log_view.block_index.n_rows == len(expected)
    batches = [log_view.batch_fields(row) for row in range(len(expected))]
    assert [(batch.position, batch.number) for batch in batches] == expected


def test_rows_read_like_dump() -> None:
    dump_lines = kfmt("dump", TXN, "--limit", "20").out.splitlines()
    log_view = log_row_view(TXN, 200)
    browser_lines = without_ansi(log_view.render_lines(0, 20))
    assert [line.split() for line in browser_lines] == [line.split() for line in dump_lines[2:22]]
    assert ANSI.sub("", log_view.table_heading).split() == dump_lines[1].split()


def test_a_block_is_read_again_from_its_anchor(tmp_path: Path) -> None:
    outline = block_index(big_log(tmp_path / "orders-0", 300))
    assert len(outline.blocks) > 5
    assert outline.is_complete
    numbers = [
        int(number)
        for block in outline.blocks
        for number in outline.read_block(block).batches.number
    ]
    assert numbers == list(range(outline.n_rows))


def test_memory_holds_a_few_blocks_whatever_is_looked_at(tmp_path: Path) -> None:
    log_view = log_row_view(big_log(tmp_path / "orders-0", 600))
    for row in range(0, log_view.block_index.n_rows, 50):
        assert len(log_view.render_lines(row, row + 50)) == min(
            50, log_view.block_index.n_rows - row
        )
        assert len(log_view._block_by_position) <= MAX_CACHED_BLOCKS


def test_first_rows_are_there_before_the_whole_file_was_read(tmp_path: Path) -> None:
    outline = BlockIndex(classify_file(str(big_log(tmp_path / "orders-0", 300)), "log"))
    assert 0 < outline.end_position < outline.file_bytes / 10
    assert not outline.is_complete
    assert len(LogRowView(outline, 80).render_lines(0, 20)) == 20


def test_outlining_can_be_stopped(tmp_path: Path) -> None:
    outline = BlockIndex(classify_file(str(big_log(tmp_path / "orders-0", 300)), "log"))
    outline.extend_index(is_cancelled=lambda: True)
    end_position = outline.end_position
    assert end_position < outline.file_bytes
    outline.extend_index(target_position=end_position + 1)
    outline.extend_index()
    assert outline.is_complete
    assert outline.end_position > end_position


def test_a_log_that_grows_is_taken_in(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    file = write(tmp_path, data[:10_000])
    outline = block_index(file)
    assert outline.n_rows == 3  # the fourth is truncated
    assert not outline.index_appended_bytes()
    file.write_bytes(data[:10_225])
    assert outline.index_appended_bytes()
    assert outline.n_rows == 4
    file.write_bytes(data)
    assert outline.index_appended_bytes()
    assert outline.n_rows == 12
    assert [
        int(n) for block in outline.blocks for n in outline.read_block(block).batches.number
    ] == list(range(12))
    assert not outline.index_appended_bytes()


def test_a_file_that_vanishes_or_shrinks_is_a_sentence(tmp_path: Path) -> None:
    file = big_log(tmp_path / "orders-0", 300)
    log_view = log_row_view(file)
    file.write_bytes(b"")
    with pytest.raises(InputError, match=r"the file has (shrunk|changed)"):
        log_view.render_lines(log_view.block_index.n_rows - 5, log_view.block_index.n_rows)
    log_view.clear_cache()
    file.unlink()
    with pytest.raises(InputError, match="No such file"):
        log_view.render_lines(10, 15)
    outline = log_view.block_index
    outline.index_appended_bytes()
    assert "No such file" in outline.read_error


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    text_file = tmp_path / "notes.log"
    text_file.write_text("nothing of Kafka's in here, but a good deal of text")
    with pytest.raises(InputError, match="not a Kafka log"):
        BlockIndex(classify_file(str(text_file), "notes.log"))
    compressed_log = tmp_path / "00000000000000000000.log.gz"
    import gzip

    compressed_log.write_bytes(gzip.compress(ORDERS.read_bytes()))
    with pytest.raises(InputError, match="the file itself is compressed"):
        BlockIndex(classify_file(str(compressed_log), "a.log.gz"))


@pytest.mark.parametrize(
    ("text", "is_selected"),
    [
        ("codec=lz4", lambda row: row["attributes"]["compression"] == "lz4"),
        ("producer=1000", lambda row: row["producer_id"] == 1000),
        ("control", lambda row: row["attributes"]["control"]),
        ("-control transactional", lambda row: not row["attributes"]["control"]),
        ("damaged", lambda row: not row["crc_valid"]),
    ],
)
def test_filters_list_the_matching_batches(text: str, is_selected: object) -> None:
    batch_filter = parse_batch_filter(text)
    assert parse_batch_filter(batch_filter.typed_text) == batch_filter
    log_view = log_row_view(TXN, batch_filter=batch_filter)
    rows = kfmt("dump", TXN, "--json").of("batch")
    expected = [row["position"] for row in rows if is_selected(row)]  # type: ignore[operator]
    assert [
        log_view.batch_fields(row).position for row in range(log_view.block_index.n_rows)
    ] == expected


@pytest.mark.parametrize(
    "text", ["codec=lzma", "producer=me", "producer=--5", "producer=²", "loud", "codec"]
)
def test_filters_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_batch_filter(text)


# Go to an offset, a time or a byte.


def test_go_to_targets_are_parsed() -> None:
    assert parse_go_to_target("700") == GoToTarget(GO_TO_OFFSET, 700)
    assert (
        parse_go_to_target("b7702")
        == parse_go_to_target("byte 7702")
        == parse_go_to_target("0x1e16")
        == GoToTarget(GO_TO_BYTE, 7702)
    )
    assert parse_go_to_target("2023-11-14T22:20").target_kind == GO_TO_TIME
    for text in ("", "b", "0x", "0x-5", "elsewhere", "--5", "²", "b²"):
        with pytest.raises(UsageError):
            parse_go_to_target(text)


def test_offsets_times_and_bytes_lead_to_their_batch() -> None:
    log_view = log_row_view(ORDERS)
    for row in kfmt("dump", ORDERS, "--json").of("batch"):
        row_indexes = (
            log_view.find_row_by_offset(row["base_offset"]),
            log_view.find_row_by_offset(row["last_offset"]),
            log_view.find_row_by_byte(row["position"]),
            log_view.find_row_by_byte(row["position"] + row["size"] - 1),
        )
        assert {log_view.batch_fields(row_index or 0).position for row_index in row_indexes} == {
            row["position"]
        }
    time_ms = 1_700_000_061_000
    first = min(
        row["position"]
        for row in kfmt("dump", ORDERS, "--json").of("batch")
        if row["max_timestamp"] >= time_ms
    )
    assert log_view.batch_fields(log_view.find_row_by_time(time_ms) or 0).position == first
    assert log_view.find_row_by_offset(10**9) == log_view.block_index.n_rows - 1


def test_a_byte_beyond_the_index_has_no_row(tmp_path: Path) -> None:
    log_view = LogRowView(
        BlockIndex(classify_file(str(big_log(tmp_path / "orders-0", 300)), "log")), 80
    )
    assert log_view.find_row_by_byte(log_view.block_index.file_bytes - 1) is None
    log_view.block_index.extend_index()
    assert (
        log_view.find_row_by_byte(log_view.block_index.file_bytes - 1)
        == log_view.block_index.n_rows - 1
    )


# The contents of a batch.


@pytest.mark.parametrize("log", [ORDERS, TXN, UPGRADED, GROUPS], ids=str)
def test_a_record_as_json_is_that_of_dump(log: Path) -> None:
    rows = kfmt("dump", log, "--records", "--json").of("record")
    log_view = log_row_view(log)
    records = []
    for row in range(log_view.block_index.n_rows):
        content = selected_batch(log, row)
        records += [json.loads(content.record_json(i)) for i in range(content.n_records)]
    assert records == rows


def test_records_read_like_dump() -> None:
    dump_lines = kfmt("dump", ORDERS, "--records", "--limit", "10").out.splitlines()
    content = selected_batch(ORDERS)
    assert (
        without_ansi(content.render_record_lines(0, 3, 200))[1].split()[:3]
        == dump_lines[4].split()[:3]
    )
    assert "customer-1" in without_ansi(content.render_record_lines(0, 3, 100))[1]


@pytest.mark.parametrize("log", [ORDERS, TXN, UPGRADED, GROUPS], ids=str)
def test_fields_are_those_of_hex(log: Path) -> None:
    log_view = log_row_view(log)
    for row in (0, log_view.block_index.n_rows - 1):
        content = selected_batch(log, row)
        position = str(content.position)
        fields = kfmt("hex", log, "--position", position, "--json").of("field")
        header = content.displayed_parts(None)[0]
        assert len(header.field_lines) > 5
        names = [field["path"] for field in fields if field["inside"] is None]
        browser_names = [
            ".".join(line.path) for line in header.field_lines if line.has_bytes or line.is_bit
        ]
        assert [name for name in names if name in browser_names][
            : len(browser_names)
        ] == browser_names
        last_record = content.n_records - 1
        section = content.displayed_parts(last_record)[-1]
        record_fields = [
            field["path"] for field in fields if field["path"].split(".")[0][-1:].isdigit()
        ]
        record_name = section.field_lines[0].path[0]
        expected = [path for path in record_fields if path.split(".")[0] == record_name]
        assert [
            ".".join(line.path) for line in section.field_lines if line.path[0] == record_name
        ] == expected


def test_records_of_internal_topics_are_decoded() -> None:
    content = dict(selected_batch(GROUPS, 4).record_texts(0))
    assert '"group": "billing"' in content["key"]
    assert '"offset": 748' in content["value"]
    marker = dict(selected_batch(TXN, 3).record_texts(0))
    assert "ABORT" in marker["control"] or "COMMIT" in marker["control"]
    tombstone = dict(selected_batch(ORDERS).record_texts(0))
    assert tombstone["value"] == "null (tombstone)"
    assert tombstone["key"] == "null"


def test_bytes_are_those_of_the_file_and_have_the_colours_of_their_fields() -> None:
    sections = selected_batch(ORDERS).displayed_parts(None)
    rows = field_rows(sections)
    lines = ByteLines(sections[0], rows)
    text = "".join(line.plain[10:34] for line in lines.render_lines(0, lines.n_lines)).replace(
        " ", ""
    )
    data = ORDERS.read_bytes()[: len(sections[0].data)]
    assert bytes.fromhex(text) == data
    assert lines._byte_style(0) == rows[0].rich_style
    lines.selected_field = rows[0].anatomy_line
    assert "reverse" in lines._byte_style(0)
    assert "reverse" not in lines._byte_style(9)
    assert "base_offset" in format_field_row(rows[0]).plain


def test_nothing_of_a_record_disturbs_a_terminal(tmp_path: Path) -> None:
    control_characters = b'\x1b]0;owned\x07\r\n[bold]\x9b31m\xe2\x80\xae\xff\\"'
    file = write(tmp_path, batch_of(record(control_characters, control_characters), 0, 1))
    content = selected_batch(file)
    lines = without_ansi(content.render_record_lines(0, 1, 80))
    rows = [format_field_row(row).plain for row in field_rows(content.displayed_parts(0))]
    assert all(text.isprintable() for text in (*lines, *rows))


# Search.


@pytest.mark.parametrize(
    ("log", "search_term"),
    [
        (ORDERS, SearchTerm("quartz")),
        (ORDERS, SearchTerm("customer-1", TEXT_SEARCH, KEY_ONLY)),
        (ORDERS, SearchTerm("customer-1", TEXT_SEARCH, VALUE_ONLY)),
        (ORDERS, SearchTerm("z[aeiou]ph", REGEX_SEARCH)),
        (ORDERS, SearchTerm("7a 65 70", HEX_SEARCH)),
        (TXN, SearchTerm("basil")),
        (TXN, SearchTerm("00 00", HEX_SEARCH)),  # in transaction markers only
        (UPGRADED, SearchTerm("ember")),
        (GROUPS, SearchTerm("billing", TEXT_SEARCH, KEY_ONLY)),
        (ORDERS, SearchTerm("nowhere")),
    ],
    ids=lambda value: value.typed_text if isinstance(value, SearchTerm) else value.parent.name,
)
def test_a_search_finds_what_its_command_finds(log: Path, search_term: SearchTerm) -> None:
    outline = block_index(log)
    hits = list(PartitionSearch([outline.file], outline, search_term).iter_hits())
    rows = [
        row
        for option in search_term.find_options
        for row in kfmt("find", log, *option, "--json").of("found")
    ]
    expected = {(row["position"], row["offset"]) for row in rows}
    assert [(hit.batch_position, hit.offset) for hit in hits] == sorted(expected)


def test_a_search_begins_at_a_position_and_can_be_stopped(tmp_path: Path) -> None:
    file = big_log(tmp_path / "orders-0", 300)
    outline = BlockIndex(classify_file(str(file), "log"))
    all_hits = list(PartitionSearch([outline.file], outline, SearchTerm("quartz")).iter_hits())
    assert outline.is_complete  # the search indexed the remaining blocks
    hits = list(
        PartitionSearch([outline.file], outline, SearchTerm("quartz"), 1_000_000).iter_hits()
    )
    first_hits = [hit for hit in all_hits if hit.batch_position >= 1_000_000]
    assert hits == first_hits + all_hits[: -len(first_hits)]
    stopped = PartitionSearch(
        [outline.file], outline, SearchTerm("quartz"), is_cancelled=lambda: True
    )
    assert list(stopped.iter_hits()) == []


def test_keys_and_values_are_searched_by_two_calls() -> None:
    text = format_command(ViewState(ViewKind.HITS, "a log", search_term=SearchTerm("a b")))
    assert text == "kfmt find 'a log' --key '~a\\ b'; kfmt find 'a log' --value '~a\\ b'"


def test_a_search_goes_through_the_logs_of_a_partition_and_comes_around() -> None:
    root = build_disk_tree((str(ORDERS.parent),), pytest.fail)
    files = [node.file for node in root.logs() if node.file is not None]
    third_index = BlockIndex(files[2])
    third_index.extend_index()
    start_position = third_index.blocks[0].end_position // 2
    search_term = SearchTerm("customer-1")
    all_hits = list(PartitionSearch(files, BlockIndex(files[0]), search_term).iter_hits())
    assert len({hit.file_name for hit in all_hits}) == len(files)
    hits = list(PartitionSearch(files, third_index, search_term, start_position).iter_hits())
    assert sorted(hit.offset for hit in hits) == [hit.offset for hit in all_hits]
    name = files[2].name
    first_hit = next(
        i
        for i, hit in enumerate(all_hits)
        if (hit.file_name, hit.batch_position) >= (name, start_position)
    )
    assert hits == all_hits[first_hit:] + all_hits[:first_hit]


def test_a_log_that_cannot_be_read_does_not_end_a_search(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", ORDERS.read_bytes())
    root = build_disk_tree((str(tmp_path / "orders-0"),), pytest.fail)
    file = root.logs()[0].file
    assert file is not None
    missing_file = classify_file(str(tmp_path / "gone.log"), "gone.log")
    search = PartitionSearch([file, missing_file], BlockIndex(file), SearchTerm("quartz"))
    assert len(list(search.iter_hits())) > 0
    assert "No such file" in search.read_errors[0]
    assert search.searched_bytes == ORDERS.stat().st_size


@pytest.mark.parametrize(
    "search_term", [SearchTerm("(", REGEX_SEARCH), SearchTerm("xyz", HEX_SEARCH)]
)
def test_a_search_for_nonsense_is_refused(search_term: SearchTerm) -> None:
    with pytest.raises(UsageError):
        list(
            PartitionSearch(
                [block_index(ORDERS).file], block_index(ORDERS), search_term
            ).iter_hits()
        )


# The help page.


@pytest.mark.parametrize("width", [38, 50, 64])
def test_the_help_page_is_wrapped_as_wide_as_the_screen(width: int) -> None:
    """Each line takes as many words as fit; wrapped descriptions keep their indent."""
    wrapped_lines = iter([line.plain for line in help_lines(width)])
    n_wrapped = 0
    for line in help_lines(1000):
        wrapped = [next(wrapped_lines).rstrip()]
        while " ".join(" ".join(wrapped).split()) != " ".join(line.plain.split()):
            wrapped.append(next(wrapped_lines).rstrip())
        indent = DESCRIPTION_INDENT if line.plain.startswith("   ") else 1
        for current, following in pairwise(wrapped):
            assert len(current) <= width
            assert len(following) - len(following.lstrip()) == indent
            assert len(current) + 1 + len(following.split()[0]) > width
            n_wrapped += 1
    assert list(wrapped_lines) == []
    assert n_wrapped


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"a":[1,"x"]}', '{\n  "a": [\n    1,\n    "x"\n  ]\n}'),
        (b'["\xc3\xa9"]', '[\n  "é"\n]'),
        (b"[", "["),
        (b"{}", "{}"),
        (b"{a}", "{a}"),
        *((b" {}", " {}"), (b"12", "12"), (b"", '"" (empty)'), (b"\xff", "base64: /w==")),
    ],
)
def test_a_payload_is_laid_out_if_it_is_json(payload: bytes, text: str, tmp_path: Path) -> None:
    data = batch_of(record(payload, payload), 0, 1)
    content = dict(selected_batch(write(tmp_path / "t-0", data)).record_texts(0))
    assert (content["key"], content["value"]) == (text, text)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [(None, b"", ("null", '"" (empty)')), (b"", None, ('"" (empty)', "null (tombstone)"))],
)
def test_a_payload_that_is_missing_is_not_one_that_is_empty(
    key: bytes | None, value: bytes | None, expected: tuple[str, str], tmp_path: Path
) -> None:
    content = dict(
        selected_batch(write(tmp_path / "t-0", batch_of(record(key, value), 0, 1))).record_texts(0)
    )
    assert (content["key"], content["value"]) == expected


def test_each_row_is_found_in_its_block(tmp_path: Path) -> None:
    log_view = log_row_view(big_log(tmp_path / "orders-0", 300))
    assert len(log_view.block_index.blocks) > 5
    for row in range(0, log_view.block_index.n_rows, 97):
        block, index = log_view.locate_batch(row)
        assert int(block.batches.number[index]) == row


def test_deleted_partitions_are_of_their_topic(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", ORDERS.read_bytes())
    write(tmp_path / f"orders-1.{'0' * 32}-delete", ORDERS.read_bytes())
    tree = build_disk_tree((str(tmp_path),), pytest.fail)
    lines = [line.plain for line in directory_page_lines(tree, CheckState(tree))]
    assert any("2 partitions of 1 topic," in line for line in lines)


@pytest.mark.parametrize("text", ["b-5", "byte -5", "b--5"])
def test_no_byte_has_a_negative_position(text: str) -> None:
    with pytest.raises(UsageError, match="is not a byte position"):
        parse_go_to_target(text)


@pytest.mark.parametrize("text", ["", "  "])
def test_a_search_for_no_bytes_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not hexadecimal"):
        _ = SearchTerm(text, HEX_SEARCH).pattern
