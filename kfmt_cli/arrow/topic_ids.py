"""The topic id of a partition, which a topic that is made again does not share."""

from __future__ import annotations

from kfmt_cli.arrow.export.output import read_whole
from kfmt_cli.broker.start.identity import read_topic_id, topic_id_of
from kfmt_cli.broker.start.stored import StartFailed
from kfmt_cli.core.urls import is_local
from kfmt_cli.core.uuids import uuid_text
from kfmt_cli.disk.kinds import PARTITION_METADATA
from kfmt_cli.disk.tree import classify
from kfmt_cli.disk.trees import TREES
from kfmt_cli.errors import ForeignError, InputError
from kfmt_cli.sharing.piece import Piece

METADATA = min(PARTITION_METADATA.names)


class TopicIds(dict[str, "str | None"]):
    """Topic ids by directory, each read when it is first asked for."""

    def __missing__(self, folder: str) -> str | None:
        self[folder] = topic_id_in(folder)
        return self[folder]

    def of(self, piece: Piece) -> str | None:
        """The topic id of a piece: from its manifest, or from the directory's partition.metadata;
        None if neither has it. Raises InputError."""
        return self[piece.folder] if piece.named is None else piece.named[2]


def topic_id_in(folder: str) -> str | None:
    """The topic id in a directory's partition.metadata; None without a valid one. Raises
    InputError if the system or the store cannot read it."""
    path = f"{folder}/{METADATA}"
    file = classify(path, path)
    try:
        if is_local(path) or TREES.at(path) is not None:
            return uuid_text(read_topic_id(file))
        data = read_whole(path)  # in one request
        return None if data is None else uuid_text(topic_id_of(file, data))
    except (StartFailed, ForeignError):
        return None
    except InputError as error:
        if error.is_gone:
            return None
        raise
