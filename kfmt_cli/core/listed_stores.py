"""The stores that have a file system of pyarrow; fsspec knows others by itself.

To add one, write a function that makes its file system, and a line in `STORES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kfmt_cli.core.credentials import SAME


@dataclass(frozen=True, slots=True)
class ListedStore:
    """A store. Functions are `module:name`, imported when the store is used."""

    system: str
    """Makes the file system of a scheme and host, and gives the path of its top."""
    fetch: str = ""
    """Fetches an object whole in one request; pyarrow takes two."""
    settings: str = ""
    """The settings of a file system in the words of Rust's object_store."""


_HERE = "kfmt_cli.core"
STORES: Mapping[str, ListedStore] = {
    "s3": ListedStore(
        f"{_HERE}.file_systems:s3",
        f"{_HERE}.small_objects:by_obstore",
        f"{_HERE}.small_objects:s3_settings",
    ),
    "abfs": ListedStore(
        f"{_HERE}.file_systems:azure",
        f"{_HERE}.small_objects:by_obstore",
        f"{_HERE}.small_objects:azure_settings",
    ),
    "gs": ListedStore(f"{_HERE}.file_systems:gs", f"{_HERE}.small_objects:by_pyarrow"),
    "hdfs": ListedStore(f"{_HERE}.file_systems:hdfs"),
    "mock": ListedStore(f"{_HERE}.file_systems:of_host"),
}


def store_kind(scheme: str) -> str:
    """The name of a scheme's store: s3a is s3."""
    return SAME.get(scheme, scheme)


def store_of(scheme: str) -> ListedStore | None:
    """The store of a scheme; None for one of fsspec."""
    return STORES.get(store_kind(scheme))
