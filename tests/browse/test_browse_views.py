"""The browser's model without a screen: the tree, findings, views, commands."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from kfmt_cli.browse.batch_filter import BatchFilter, parse_batch_filter
from kfmt_cli.browse.command_line import ViewKind, ViewState, command_arguments, format_command
from kfmt_cli.browse.directory_page import directory_page_lines
from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind, build_disk_tree
from kfmt_cli.browse.log_search import TEXT_SEARCH, VALUE_ONLY, SearchTerm
from kfmt_cli.browse.partition_checks import (
    CheckState,
    NodeCheckResult,
    check_partitions,
    group_partitions,
)
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.browse.text_host import capture_output, wrap_lines
from kfmt_cli.browse.views import VIEWS, ViewSubject, render_view, view_for_key
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.errors import InputError
from tests.support.outlines import (
    ANSI,
    DAMAGED,
)
from tests.support.samples import ORDERS, TXN, kfmt
from tests.support.segments import with_bytes, write
from tools.kafka import ROOT, SAMPLES

# The tree and the findings.


def test_the_tree_has_topics_partitions_and_segments() -> None:
    root = build_disk_tree((str(SAMPLES / "kafka-3.9.1-broker1"),), pytest.fail)
    assert root.kind is NodeKind.DIRECTORY
    by_label = {child.label: child for child in root.children}
    assert by_label["__consumer_offsets"].kind is NodeKind.TOPIC
    assert [child.label for child in by_label["__consumer_offsets"].children] == [
        "__consumer_offsets-1",
        "__consumer_offsets-2",
    ]
    orders = by_label["orders-0"]
    assert orders.kind is NodeKind.PARTITION
    assert len(orders.logs()) == 7
    assert orders.children[0].label == "…000000.log"
    assert orders.children[0].display_path == str(ORDERS)
    assert orders.total_bytes == sum(file.stat().st_size for file in ORDERS.parent.iterdir())
    assert by_label["meta.properties"].kind is NodeKind.FILE


def test_several_paths_and_a_tree_of_directories_have_a_node_each() -> None:
    root = build_disk_tree((str(SAMPLES),), pytest.fail)
    assert root.kind is NodeKind.ROOT
    assert "kafka-3.9.1-broker1" in [child.label for child in root.children]
    two_paths = build_disk_tree((str(ORDERS.parent), str(TXN)), pytest.fail)
    assert [child.kind for child in two_paths.children] == [NodeKind.PARTITION, NodeKind.FILE]
    assert two_paths.display_paths == (str(ORDERS.parent), str(TXN))


def check_path(path: str | Path) -> NodeCheckResult:
    """The result of checking a partition by itself."""
    results = check_partitions([build_disk_tree((str(path),), pytest.fail)], lambda: False)
    assert results is not None
    return results[0]


@pytest.mark.parametrize("log", DAMAGED, ids=lambda log: log.parent.name)
def test_findings_are_those_of_check(log: Path) -> None:
    result = check_path(log.parent)
    assert result.tree_mark[0].startswith("✗")
    codes = sorted(finding.code.name for finding in result.findings)
    assert codes == sorted(kfmt("check", log.parent, "--json").codes)


def test_a_healthy_partition_is_marked_so() -> None:
    assert check_path(ORDERS.parent).tree_mark == ("✓", "good")


def test_partitions_are_checked_together_as_each_by_itself(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "damaged_segments", tmp_path / "data")
    write(tmp_path / "data/empty-0", b"")
    (tmp_path / "data/new-0").mkdir()
    root = build_disk_tree((str(tmp_path / "data"),), pytest.fail)
    nodes = list(root.iter_partitions())
    results = check_partitions(nodes, lambda: False)
    assert results is not None
    for node, partition_result in zip(nodes, results, strict=True):
        if node.children:
            assert partition_result == check_path(node.path)
        else:  # `check` of the whole directory reports nothing
            assert partition_result.tree_mark == ("✓", "good")
    marks = {node.label: result.tree_mark[0] for node, result in zip(nodes, results, strict=True)}
    assert marks["empty-0"] == "✓"
    assert check_partitions(nodes, lambda: True) is None


def test_only_a_partition_that_cannot_be_read_is_marked_so(tmp_path: Path) -> None:
    for name in ("orders-0", "gone-0"):
        shutil.copytree(ORDERS.parent, tmp_path / name)
    nodes = list(build_disk_tree((str(tmp_path),), pytest.fail).iter_partitions())
    shutil.rmtree(tmp_path / "gone-0")
    results = check_partitions(nodes, lambda: False)
    assert results is not None
    assert {
        node.label: result.tree_mark[0] for node, result in zip(nodes, results, strict=True)
    } == {
        "gone-0": "unread",
        "orders-0": "✓",
    }


def test_an_unreadable_partition_does_not_repeat_the_checks_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfmt_cli.browse import partition_checks as module

    shutil.copytree(ROOT / "damaged_segments", tmp_path / "data")
    shutil.copytree(ORDERS.parent, tmp_path / "data/gone-0")
    shutil.copytree(ORDERS.parent, tmp_path / "data/lost-0")
    nodes = list(build_disk_tree((str(tmp_path / "data"),), pytest.fail).iter_partitions())
    shutil.rmtree(tmp_path / "data/gone-0")
    (tmp_path / "data/lost-0" / ORDERS.name).unlink()
    (tmp_path / "data/lost-0" / ORDERS.name).symlink_to("nowhere")
    expected = [check_partitions([node], lambda: False) for node in nodes]
    check_run = Mock(wraps=module._run_check)
    monkeypatch.setattr(module, "_run_check", check_run)
    assert [[result] for result in check_partitions(nodes, lambda: False) or ()] == expected
    assert check_run.call_count == 1


def test_many_partitions_are_checked_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    from kfmt_cli.browse import partition_checks as module

    nodes = list(build_disk_tree((str(ROOT / "damaged_segments"),), pytest.fail).iter_partitions())
    monkeypatch.setattr(module, "MAX_GROUP_PARTITIONS", 3)
    assert [len(group) for group in group_partitions(nodes)] == [3, 3, 2]
    monkeypatch.setattr(module, "MAX_GROUP_BYTES", nodes[0].total_bytes)
    assert [node for group in group_partitions(nodes) for node in group] == nodes
    assert len(list(group_partitions(nodes))) > 3


def test_marks_are_those_of_the_partitions_under_a_node() -> None:
    session = BrowserSession(build_disk_tree((str(ROOT / "damaged_segments"),), pytest.fail))
    checks, partitions = session.checks, list(session.root.iter_partitions())
    assert session.node_mark(session.root) == ("", "dim")
    checks.paths_in_progress.add(partitions[0].path)
    assert session.node_mark(session.root) == session.node_mark(partitions[0]) == ("…", "dim")
    assert session.node_mark(partitions[1]) == ("", "dim")
    checks.paths_in_progress.clear()
    healthy = NodeCheckResult()
    checks.result_by_path.update((partition.path, healthy) for partition in partitions[1:])
    assert session.node_mark(session.root) == ("", "dim")
    checks.result_by_path[partitions[0].path] = healthy
    assert session.node_mark(session.root) == ("✓", "good")
    for partition in partitions[:2]:
        checks.result_by_path[partition.path] = check_path(partition.path)
        assert session.node_mark(partition)[0].startswith("✗")
        assert session.node_mark(partition.logs()[0])[0].startswith("✗")
    assert session.node_mark(session.root) == ("✗2", "bad")
    assert session.node_mark(partitions[2].logs()[0]) == ("", "dim")


def test_findings_are_gone_through_in_a_circle() -> None:
    root = build_disk_tree((str(ROOT / "damaged_segments"),), pytest.fail)
    session = BrowserSession(root)
    checks = session.checks
    assert checks.select_next_finding(1) is None
    for partition in root.iter_partitions():
        checks.result_by_path[partition.path] = check_path(partition.path)
    findings = checks.navigable_findings
    visited = [checks.select_next_finding(1) for _ in findings]
    assert visited == findings
    assert checks.select_next_finding(1) is findings[0]
    assert checks.select_next_finding(-1) is findings[-1]
    assert all(
        session.find_file_node(finding.file) or finding.position is None for finding in findings
    )


# Views.


def view_subjects() -> dict[str, ViewSubject]:
    broker = build_disk_tree((str(SAMPLES / "kafka-3.9.1-broker1"),), pytest.fail)
    txn = next(child for child in broker.children if child.label == "txn-0")
    return {"broker": ViewSubject(broker), "txn-0": ViewSubject(txn, 30)}


def first_columns(text: str) -> list[str]:
    """The first column of each line, which does not depend on the clock."""
    return [line.split("   ")[0].strip() for line in text.splitlines()]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.label)
def test_a_view_shows_what_its_command_shows(view: object) -> None:
    for name, subject in view_subjects().items():
        view_text = ANSI.sub("", render_view(view, subject, 400))  # type: ignore[arg-type]
        try:
            command = view.command_arguments(subject)  # type: ignore[attr-defined]
        except InputError:
            assert len(view_text.splitlines()) == 1, name
            continue
        result = kfmt(*command)
        command_words = Counter((result.out + result.err).split())
        view_words = Counter(view_text.split())
        if view.key == "7":  # type: ignore[attr-defined]
            assert all(line in result.out for line in view_text.splitlines()[:1]), name
            continue
        n_common = (command_words & view_words).total()
        assert n_common >= 0.9 * max(command_words.total(), view_words.total()), (name, command)


def test_sizes_are_of_what_is_in_the_node() -> None:
    """A directory has rows of partitions; a partition and a file have rows of segments."""
    broker = str(SAMPLES / "kafka-3.9.1-broker1")
    for path, row_type in (
        (broker, "partition"),
        (f"{broker}/orders-0", "segment"),
        (f"{broker}/orders-0/{0:020}.log", "segment"),
    ):
        command = view_for_key("1").command_arguments(
            ViewSubject(build_disk_tree((path,), pytest.fail))
        )
        assert ("segment" in command) == (row_type == "segment")
        assert rendered_view(path, "1").split()[0] == row_type


def rendered_view(path: str, key: str) -> str:
    subject = ViewSubject(build_disk_tree((path,), pytest.fail))
    return ANSI.sub("", render_view(view_for_key(key), subject, 100))


def test_the_start_view_covers_all_selected_partitions() -> None:
    view_text = rendered_view(str(ROOT / "damaged_segments"), "7")
    output = kfmt("check", ROOT / "damaged_segments", "--all").out
    answers, _, table = view_text.partition("\n\n")
    assert f"\n{answers}\n" in output
    assert "next steps" in answers
    rows = table.splitlines()
    assert rows[0].startswith(" directory ")
    assert "after a crash" in rows[0]
    assert "after a clean shutdown" in rows[0]
    assert "offsets lost" in rows[1]
    assert len([row for row in rows if "damaged_segments/" in row and "$" not in row]) == 8
    assert "$ kfmt explain recovery" in rows[-1]
    healthy_view = rendered_view(str(SAMPLES / "kafka-3.9.1-broker1"), "7")
    assert "the broker would start" in healthy_view
    assert "intact" in healthy_view


def test_the_worst_start_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    disk = Path("disk")
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", disk)
    log = disk / "orders-0" / ORDERS.name
    log.write_bytes(with_bytes(log.read_bytes(), 5000, b"harm"))
    (disk / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    ids = {"unknown-0": "A" * 21 + "Q", "empty-2": "none"}
    for name, topic_id in ids.items():
        (disk / name).mkdir(exist_ok=True)
        (disk / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    rows = rendered_view(str(disk), "7").partition("\n directory ")[2].splitlines()
    assert [re.split("  +", row.strip()) for row in rows[1:4]] == [
        ["disk/empty-2", "does not start", "does not start"],
        ["disk/unknown-0", "renamed -stray", "renamed -stray"],
        ["disk/orders-0", "1 480 offsets lost", "20 unreachable"],
    ]
    assert rows[-1].startswith("$ kfmt explain recovery disk/empty-2 ")


def test_equal_starts_are_in_the_order_of_check() -> None:
    broker = str(SAMPLES / "kafka-3.9.1-broker1")
    partitions = kfmt("check", broker, "--json").of("partition")
    intact = [
        row["file"]
        for row in partitions
        if row["file"] in (view_text := rendered_view(broker, "7"))
    ]
    assert sorted(intact, key=view_text.index) == intact
    assert len(intact) > 5


def test_a_directory_names_what_is_wrong_in_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "damaged_segments", tmp_path / "data")
    shutil.copytree(ORDERS.parent, tmp_path / "data/gone-0")
    root = build_disk_tree((str(tmp_path / "data"),), pytest.fail)
    nodes = list(root.iter_partitions())
    checks = CheckState(root)
    lines = [str(line) for line in directory_page_lines(root, checks)]
    assert lines[2] == " not checked yet; press c to check"
    shutil.rmtree(tmp_path / "data/gone-0")
    results = check_partitions(nodes, lambda: False)
    checks.result_by_path.update(zip((node.path for node in nodes), results or [], strict=True))
    lines = [str(line) for line in directory_page_lines(root, checks)]
    assert lines[2] == " ✗ 8 partitions of 9 with errors, 1 unread"
    text_by_name = dict(line.split(maxsplit=1) for line in lines[-9:])
    assert text_by_name["gone-0"].endswith("/gone-0: No such file or directory")
    assert text_by_name["flipped-bit-0"] == "crc-mismatch"
    assert text_by_name["zero-tail-0"] == "zero-tail"
    del checks.result_by_path[nodes[0].path]
    lines = [str(line) for line in directory_page_lines(root, checks)]
    assert lines[2] == " ✗ 7 partitions of 9 with errors, 1 unread (8 of 9 checked)"
    checks.paths_in_progress.add(nodes[0].path)
    lines_while_checking = [str(line) for line in directory_page_lines(root, checks)]
    assert lines_while_checking[2] == " checking: 8 of 9 partitions …"


def test_producers_are_shown_of_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    from kfmt_cli.browse import views

    broker = str(SAMPLES / "kafka-3.9.1-broker1")
    view_text = rendered_view(broker, "5")
    root = build_disk_tree((broker,), pytest.fail)
    labels = [
        node.label
        for node in root.iter_partitions()
        if any(child.file and child.file.kind is PRODUCER_SNAPSHOT_KIND for child in node.children)
    ]
    assert len(labels) > 1
    for label in labels:
        assert f"/{label}/" in view_text
    monkeypatch.setattr(views, "MAX_SNAPSHOTS", 1)
    assert "select a partition; producer state is per partition" in rendered_view(broker, "5")


def test_counts_of_transactions_come_first() -> None:
    first_line = rendered_view(str(TXN.parent), "4").splitlines()[0]
    assert re.search(r"txn-0: \d+ committed, \d+ aborted, \d+ open; last stable", first_line)


def test_a_view_that_nobody_waits_for_ends() -> None:
    subject = view_subjects()["broker"]
    assert render_view(VIEWS[1], subject, 80, lambda: True) == ""


def test_errors_of_commands_are_sentences() -> None:
    from kfmt_cli.commands.txn.command import TxnCommand
    from kfmt_cli.commands.txn.options import TxnOptions

    options = TxnOptions(paths=("/no/such/path",))
    text = capture_output(lambda run: TxnCommand(run, options).execute(), 80)
    assert "No such file or directory" in text
    assert "Traceback" not in text


def test_long_lines_are_wrapped_and_keep_their_colours() -> None:
    lines = wrap_lines("  \x1b[1m" + "word " * 40 + "\x1b[0m", 50)
    assert len(lines) > 3
    assert all(line.cell_len <= 50 for line in lines if not isinstance(line, str))


# Commands.

STATES = {
    "file": ViewState(ViewKind.VIEW, command=("dump", str(ORDERS.with_suffix(".index")))),
    "batches": ViewState(ViewKind.BATCHES, str(ORDERS), 20, 99),
    "producer": ViewState(
        ViewKind.BATCHES, str(TXN), 0, 99, batch_filter=BatchFilter(producer_id=1000)
    ),
    "records": ViewState(ViewKind.RECORDS, str(ORDERS), 60, 79),
    "fields": ViewState(ViewKind.FIELDS, str(ORDERS), batch_position=7702, record_offset=61),
    "header": ViewState(ViewKind.FIELDS, str(ORDERS), batch_position=7702),
    "payload": ViewState(ViewKind.PAYLOAD, str(ORDERS), 61, 61),
    "decoded": ViewState(
        ViewKind.PAYLOAD, str(ORDERS), 61, 61, decoding_options=("--value-format", "json")
    ),
    "hits": ViewState(
        ViewKind.HITS, str(ORDERS), search_term=SearchTerm("quartz", TEXT_SEARCH, VALUE_ONLY)
    ),
    "view": ViewState(ViewKind.VIEW, command=("txn", str(TXN.parent))),
    "code": ViewState(ViewKind.VIEW, command=("explain", "crc-mismatch")),
}
EXPECTED = {
    "file": "23 218",
    "batches": "20–39",
    "producer": "1000",
    "records": "customer-11",
    "fields": "→ offset 61",
    "header": "offsets 60–79",
    "payload": '"offset":61',
    "decoded": '"decoded_value"',
    "hits": "place",
    "view": "committed",
    "code": "after a crash",
}


@pytest.mark.parametrize("name", STATES)
def test_every_command_line_runs_and_shows_the_same(name: str) -> None:
    result = kfmt(*command_arguments(STATES[name]))
    assert result.code == 0, result.err
    assert EXPECTED[name] in result.out
    assert format_command(STATES[name]).startswith("kfmt ")


def test_filters_without_an_option_are_a_jq_condition() -> None:
    batch_filter = parse_batch_filter("codec=lz4 -control damaged")
    text = format_command(ViewState(ViewKind.BATCHES, "a file", batch_filter=batch_filter))
    assert text.startswith("kfmt dump 'a file' --json | jq -c ")
    condition = shlex.split(text)[-1]
    assert condition == (
        'select(.attributes.compression=="lz4" and (.attributes.control|not) and (.crc_valid|not))'
    )
    if shutil.which("jq"):
        import subprocess

        output = kfmt("dump", TXN, "--json").out
        result = subprocess.run(
            ["jq", "-c", condition], input=output, text=True, capture_output=True, check=True
        )
        assert result.stdout == ""


def test_the_command_of_a_session_selects_the_visible_rows() -> None:
    session = BrowserSession(build_disk_tree((str(ORDERS),), pytest.fail))
    session.open_log(session.root, 80)
    opened_log = session.opened_log
    assert opened_log is not None
    opened_log.block_index.extend_index()
    opened_log.select_batch(3)
    assert command_arguments(session.view_state(ViewKind.BATCHES, 1, 4))[2:] == [
        *("--from-offset", "20", "--to-offset", "79"),
    ]
    opened_log.record_index = 1
    assert command_arguments(session.view_state(ViewKind.FIELDS))[2:] == [
        "--offset",
        "61",
        "--alone",
    ]
    assert command_arguments(session.view_state(ViewKind.PAYLOAD))[3:7] == [
        *("--from-offset", "61", "--to-offset", "61"),
    ]


def test_nodes_have_ancestors() -> None:
    root = build_disk_tree((str(SAMPLES / "kafka-3.9.1-broker1"),), pytest.fail)
    session = BrowserSession(root)
    node = session.find_file_node(str(ORDERS))
    assert isinstance(node, DiskNode)
    assert [ancestor.label for ancestor in session.ancestors(node)] == [root.label, "orders-0"]
    assert session.enclosing_partition(node).label == "orders-0"
    assert np.array([node.total_bytes]).sum() == ORDERS.stat().st_size


@pytest.mark.parametrize("path", [".", "./orders-0", "..//d/orders-0/"])
def test_marks_do_not_depend_on_how_a_path_is_written(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = shutil.copytree(ORDERS.parent, tmp_path / "d" / "orders-0")
    log = min(directory.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"!")
    monkeypatch.chdir(tmp_path / "d")
    nodes = list(build_disk_tree((path,), print).iter_checkable_nodes())
    results = check_partitions(nodes, lambda: False)
    assert results is not None
    assert results[0].tree_mark == ("✗2", "bad")


def test_only_files_that_check_reads_are_checked(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    for name in (".lock", "README.txt", "meta.properties"):
        (tmp_path / name).touch()
    names = [
        Path(node.path).name
        for node in build_disk_tree((str(tmp_path),), print).iter_checkable_nodes()
    ]
    assert sorted(names) == ["meta.properties", "orders-0"]
