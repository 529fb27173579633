"""check: the steps after which a broker starts and serves every partition that its disks have.

Nothing that has records is moved unless its identity shows that the broker has the same elsewhere,
or that it cannot serve it where it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kfmt_cli.broker.metadata.metadata_files import METADATA_TOPIC_ID
from kfmt_cli.broker.metadata.opened_log import (
    find_log_start_offset,
    metadata_snapshots,
    snapshot_end_offset,
)
from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.checkpoints import METADATA_LOG_NAME
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.identities import BrokerIdentities, DirectoryIdentity, Situation
from kfmt_cli.broker.start.known_properties import KnownProperties, iter_needed_properties
from kfmt_cli.broker.start.unusable_files import FileRole, UnusableFile, iter_unusable_files
from kfmt_cli.broker.version import KAFKA_VERSIONS
from kfmt_cli.commands.check.plan.shell_commands import (
    aside_path,
    move_command,
    outside_path,
    write_command,
)
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.core.uuids import format_uuid
from kfmt_cli.disk.file_access import is_ordinary_disk_path
from kfmt_cli.disk.kinds import META_PROPERTIES_KIND, PARTITION_METADATA_KIND
from kfmt_cli.errors import InputError
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import format_count, quote_path_for_shell

_META_PROPERTIES = min(META_PROPERTIES_KIND.names)
_PARTITION_METADATA = min(PARTITION_METADATA_KIND.names)
_PRICE_BY_ROLE = {
    FileRole.RECOVERY_POINTS: "the broker does not need it; after a crash it then recovers every "
    "segment, which takes longer",
    FileRole.LOG_STARTS: "the broker does not need it; deleted records in segments that still "
    "exist are served again",
    FileRole.HIGH_WATERMARKS: "the broker does not need it; it determines high watermarks again",
    FileRole.BOOTSTRAP: "the metadata log has its records already",
    FileRole.LEADER_EPOCHS: "the broker does not start with this file and does not need it",
    FileRole.SEGMENT_FILE: "the broker rebuilds it from the log",
}


def iter_start_steps(
    brokers: Iterable[BrokerDirectories],
    identities: Iterable[BrokerIdentities],
    on_error: Callable[[str], None],
) -> Iterator[NextStep]:
    """The steps for all brokers. on_error: receives errors about unreadable files."""
    all_brokers, all_identities = list(brokers), list(identities)
    replaced_paths = {
        identity.log_directory.path
        for broker_identities in all_identities
        for identity in broker_identities.directories
        if _is_replaced(identity)
    }
    for broker, broker_identities in zip(all_brokers, all_identities, strict=True):
        directories = broker.directories
        if not all(is_ordinary_disk_path(directory.path) for directory in directories):
            continue  # nothing is changed in an archive
        if any(directory.path in replaced_paths for directory in directories):
            continue
        outer_paths = {directory.outer_path for directory in directories} - {None}
        if not outer_paths <= replaced_paths:
            continue  # it has to leave the log directory that it is in
        other_directories = [
            directory
            for other in all_brokers
            if other is not broker
            for directory in other.directories
        ]
        yield from _properties_steps(broker, other_directories)
        read_errors: list[InputError] = []
        unusable_files = list(iter_unusable_files(broker, read_errors))
        for error in read_errors:
            on_error(str(error))
        for unusable_file in unusable_files:
            yield _file_step(unusable_file, broker)
        yield from _metadata_log_steps(broker, unusable_files)
        yield from _identity_steps(broker_identities)
    for broker_identities in all_identities:
        for identity in broker_identities.directories:
            if _is_replaced(identity):
                yield _nested_step(identity)


def _is_replaced(identity: DirectoryIdentity) -> bool:
    """Whether log.dirs must name the log directory in a directory, as nothing else has records."""
    return identity.situation is Situation.NESTED and not any(
        replica.contained_offsets for replica in identity.log_directory.replicas
    )


def _properties_steps(
    broker: BrokerDirectories, other_directories: list[LogDirectory]
) -> Iterator[NextStep]:
    """Steps that write meta.properties."""
    for known in iter_needed_properties(broker, other_directories):
        directory = known.directory
        path = str(Path(directory.path) / _META_PROPERTIES)
        name = format_display_name(directory.path)
        mends = frozenset({name, directory.path, format_display_name(path)})
        if not known.lines:
            yield NextStep(
                name,
                f"# {quote_path_for_shell(path)} needs version=1, cluster.id and node.id: take "
                "them from another broker of the cluster and from its configuration",
                "no file on these disks has them; the broker does not start without them",
                mends=mends,
            )
            continue
        yield NextStep(
            name,
            write_command(path, known.lines, _old_path(path)),
            _properties_price(known),
            mends=mends,
        )


def _old_path(path: str, *, is_in_partition: bool = False) -> str | None:
    """Where to move what is at a path; None if nothing is. A directory cannot stay in the log
    directory under a name that is not a partition's."""
    if Path(path).is_dir() and not is_in_partition:
        return outside_path(path)
    return aside_path(path) if os.path.lexists(path) else None


def _properties_price(known: KnownProperties) -> str:
    if known.has_new_cluster_id:
        return (
            "the ids in the metadata log; no disk has the cluster.id: this is a new one, which "
            "works for a cluster of one node"
        )
    if known.directory_id is None:
        return "the broker does not start without these ids; it generates a directory.id"
    return "the ids that the metadata log and the other files have"


def _file_step(unusable_file: UnusableFile, broker: BrokerDirectories) -> NextStep:
    """The step for a file that a broker cannot use."""
    role, log_directory, listing, name = unusable_file
    path = str(Path(listing.path) / name)
    display_name = listing.input_file(name).name
    mends = frozenset(
        {display_name, listing.name} if log_directory.listing is not listing else {display_name}
    )
    if role is FileRole.METADATA_TOPIC_ID:
        lines = ["version: 0", f"topic_id: {format_uuid(METADATA_TOPIC_ID)}"]
        command = write_command(path, lines, aside_path(path))
        return NextStep(listing.name, command, "the id of every metadata log", mends=mends)
    price = _PRICE_BY_ROLE.get(role)
    if role is FileRole.QUORUM_STATE:
        price = _quorum_state_price(broker)
    if role is FileRole.METADATA_SNAPSHOT:
        older = metadata_snapshots(listing)[:-1]
        older_end = (snapshot_end_offset(older[-1]) or 0) if older else 0
        price = "older files of the metadata log have its records"
        if not listing.logs or find_log_start_offset(listing) > older_end:
            return _controller_step(broker, listing.name, listing.path, mends)
    target = _old_path(path, is_in_partition=listing is not log_directory.listing)
    return NextStep(listing.name, move_command(path, target or path), price or "", mends=mends)


def _quorum_state_price(broker: BrokerDirectories) -> str:
    image = broker.cluster_image
    n_voters = 0 if image is None else len(image.voter_ids)
    if n_voters == 1:
        return "one voter: safe; the broker rewrites it"
    voters = f"{n_voters} voters" if n_voters else "if there are several voters"
    return f"{voters}: start it while a majority of the others runs, as it forgets its last vote"


def _controller_step(
    broker: BrokerDirectories, name: str, path: str, mends: frozenset[str]
) -> NextStep:
    """The step for a metadata log that cannot be loaded: another controller has it, or nothing."""
    image = broker.cluster_image
    voter_ids = frozenset() if image is None else image.voter_ids
    if voter_ids - {broker.node_id}:
        return NextStep(
            name,
            move_command(path, outside_path(path)),
            "the controllers have it: the broker fetches it again; start it while a majority runs",
            mends=mends,
        )
    return NextStep(
        name,
        f"# nothing on this disk helps: restore {quote_path_for_shell(path)} from another "
        "controller or a backup",
        "the broker does not start without its metadata log",
        mends=mends,
    )


def _version_step(broker: BrokerDirectories, name: str, level_problems: list[str]) -> NextStep:
    """The step for a version that does not support the levels of the cluster's features."""
    names = [version.name for version in KAFKA_VERSIONS if not broker.level_problems(version)]
    version_text = f"Kafka {' or '.join(names)}" if names else "the version of Kafka that wrote it"
    return NextStep(
        name,
        f"# use {version_text} for this disk",
        f"{level_problems[0].partition(':')[0]}; the disk needs no change",
        mends=frozenset({name}),
    )


def _metadata_log_steps(
    broker: BrokerDirectories, unusable_files: Iterable[UnusableFile]
) -> Iterator[NextStep]:
    """Steps for a metadata log that the broker does not load, and for a second one."""
    first_directory, *other_directories = broker.directories
    path = f"{first_directory.path}/{METADATA_LOG_NAME}"
    name = format_display_name(path)
    if level_problems := broker.level_problems():
        yield _version_step(broker, name, level_problems)
    failing_files = {
        file
        for file, reason in broker.early_failures()
        if not reason.endswith(tuple(level_problems))
    }
    is_mended = any(file.listing.path.rstrip("/") == path for file in unusable_files)
    if (name in failing_files or broker.is_metadata_log_failing) and not is_mended:
        yield _controller_step(broker, name, path, frozenset({name}))
    for directory in other_directories:
        if directory.has_metadata_log:
            second_path = f"{directory.path}/{METADATA_LOG_NAME}"
            second_name = format_display_name(directory.path)
            yield NextStep(
                second_name,
                move_command(second_path, outside_path(second_path)),
                f"a broker has one metadata log, here the one in {first_directory.path}, unless "
                "metadata.log.dir names this one",
                mends=frozenset({second_name, directory.path}),
            )


def _identity_steps(identities: BrokerIdentities) -> Iterator[NextStep]:
    """Steps that give each partition its place, its name and its id."""
    for identity in identities.directories:
        if _must_leave(identity):
            yield _outside_step(identity)
    yield from _rename_steps(identities)
    for identity in identities.directories:
        if identity.situation is Situation.WITHOUT_ID:
            yield from _id_steps(identities, identity, identity.listing.path)
        elif identity.has_unusable_id and not identity.needs_id and not _must_leave(identity):
            path = str(Path(identity.listing.path) / _PARTITION_METADATA)
            name = identity.listing.name
            yield NextStep(
                name,
                move_command(path, aside_path(path)),
                "the broker does not start with this file; without it, it sets the directory aside",
                mends=frozenset({name, identity.listing.input_file(_PARTITION_METADATA).name}),
            )


def _outside_step(identity: DirectoryIdentity) -> NextStep:
    """The step for a directory that must leave its log directory."""
    if identity.situation is Situation.NESTED:
        return _nested_step(identity)
    path, name = identity.listing.path, identity.listing.name
    mends = frozenset({name})
    price = "the broker does not start with this directory, which has no records"
    if identity.original is not None:
        mends |= {identity.original.listing.name}
        n_own = identity.n_own_offsets
        price = f"a copy of {identity.original.listing.name}"
        price += f", with {format_count(n_own, 'offset')} that are only here" if n_own else ""
    elif identity.n_offsets:
        price = (
            "the broker does not start with it, and nothing shows its partition; its "
            f"{format_count(identity.n_offsets, 'offset')} stay in the moved directory"
        )
    elif identity.name == "lost+found":
        price = "the broker does not start with it; use a subdirectory of the mount instead"
    return NextStep(name, move_command(path, outside_path(path)), price, mends=mends)


def _must_leave(identity: DirectoryIdentity) -> bool:
    """Whether the broker does not start with a directory, or another one needs its name."""
    original = identity.original
    if identity.situation not in (Situation.COPY, Situation.UNKNOWN):
        return identity.situation is Situation.NESTED
    if identity.named is None:
        return True
    return original is not None and (
        original.situation is Situation.MISNAMED
        or (identity.named == original.named and identity.suffix in ("", "future"))
    )


def _nested_step(identity: DirectoryIdentity) -> NextStep:
    """The step for a directory that is or contains a log directory."""
    nested_path = identity.log_directory_path or identity.listing.path
    outer, mends = identity.log_directory, frozenset({identity.listing.name})
    if _is_replaced(identity):
        return NextStep(
            identity.listing.name,
            f"# set log.dirs={quote_path_for_shell(nested_path)}, not "
            f"{quote_path_for_shell(outer.path)}: the volume is mounted one level too high",
            "the records are in the inner directory; move nothing",
            mends=mends | {outer.path, format_display_name(outer.path)},
        )
    return NextStep(
        identity.listing.name,
        move_command(identity.listing.path, outside_path(identity.listing.path)),
        "a log directory in a log directory: add it to log.dirs if its partitions are not copies",
        mends=mends,
    )


def _rename_steps(identities: BrokerIdentities) -> Iterator[NextStep]:
    """Steps that give directories the names of their partitions, in an order in which each name is
    free; a circle of names is broken by a temporary one."""
    pending = [
        identity
        for identity in identities.directories
        if identity.situation is Situation.MISNAMED and identity.name != identity.right_name
    ]
    needed_paths = {_right_path(identity) for identity in pending}
    for identity in identities.directories:
        path = identity.listing.path.rstrip("/")
        if path in needed_paths and identity not in pending and not _must_leave(identity):
            yield NextStep(
                identity.listing.name,
                move_command(path, outside_path(path)),
                "another directory contains the partition of this name",
                mends=frozenset({identity.listing.name}),
            )
    while pending:
        sources = {identity.listing.path.rstrip("/") for identity in pending}
        free = [identity for identity in pending if _right_path(identity) not in sources]
        if not free:
            yield from _circle_steps(pending)
            return
        for identity in free:
            pending.remove(identity)
            path, target = identity.listing.path, _right_path(identity)
            yield NextStep(
                identity.listing.name,
                move_command(path, target),
                _rename_price(identity),
                mends=frozenset({identity.listing.name}),
            )
            yield from _id_steps(identities, identity, target)


def _right_path(identity: DirectoryIdentity) -> str:
    return str(Path(identity.listing.path).with_name(identity.right_name))


def _rename_price(identity: DirectoryIdentity) -> str:
    shown_by = "its topic id" if identity.topic_id is not None else "its name and the other files"
    count_text = format_count(identity.n_offsets, "offset")
    return f"{shown_by} shows that it is {identity.right_name}: {count_text} are served again"


def _circle_steps(pending: list[DirectoryIdentity]) -> Iterator[NextStep]:
    first = pending[0]
    temporary_path = outside_path(first.listing.path)
    commands = [move_command(first.listing.path, temporary_path)]
    sources = {identity.listing.path.rstrip("/"): identity for identity in pending}
    # Follow the circle backwards: whoever takes the name that is free now.
    free_path = first.listing.path.rstrip("/")
    remaining = [identity for identity in pending if identity is not first]
    while remaining:
        identity = next(
            (other for other in remaining if _right_path(other) == free_path), remaining[0]
        )
        remaining.remove(identity)
        commands.append(move_command(identity.listing.path, _right_path(identity)))
        free_path = identity.listing.path.rstrip("/")
    commands.append(move_command(temporary_path, _right_path(first)))
    yield NextStep(
        first.listing.name,
        " && ".join(commands),
        "their topic ids show that these directories have each other's names",
        mends=frozenset(identity.listing.name for identity in sources.values()),
    )


def _id_steps(
    identities: BrokerIdentities, identity: DirectoryIdentity, directory_path: str
) -> Iterator[NextStep]:
    """The step that writes a partition's topic id where it lacks it."""
    topic = identity.topic_partition[0] if identity.topic_partition is not None else ""
    topic_id = identities.topic_id(topic)
    if topic_id is None or topic_id == identity.topic_id:
        return
    path = str(Path(directory_path) / _PARTITION_METADATA)
    current_path = str(Path(identity.listing.path) / _PARTITION_METADATA)
    old_path = aside_path(path) if os.path.lexists(current_path) else None
    command = write_command(path, ("version: 0", f"topic_id: {topic_id}"), old_path)
    name = identity.listing.name
    mends = frozenset({name, identity.listing.input_file(_PARTITION_METADATA).name})
    price = f"the id of {topic} in the metadata log: the broker serves the partition again"
    yield NextStep(name, command, price, mends=mends)
