"""The stores that have a file system of pyarrow; fsspec knows others by itself.

To add one, write a function that makes its file system, and a line in `STORES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kfmt_cli.core.credentials import STORE_BY_SCHEME


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store. Functions are `module:name`, imported when the store is used."""

    file_system_target: str
    """Makes the file system of a scheme and host, and gives the path of its top."""
    fetch_target: str = ""
    """Fetches an object whole in one request; pyarrow takes two."""
    settings_target: str = ""
    """The settings of a file system in the words of Rust's object_store."""


_PACKAGE = "kfmt_cli.core"
STORES: Mapping[str, StoreSpec] = {
    "s3": StoreSpec(
        f"{_PACKAGE}.file_systems:s3_file_system",
        f"{_PACKAGE}.small_objects:fetch_with_obstore",
        f"{_PACKAGE}.small_objects:s3_settings",
    ),
    "abfs": StoreSpec(
        f"{_PACKAGE}.file_systems:azure_file_system",
        f"{_PACKAGE}.small_objects:fetch_with_obstore",
        f"{_PACKAGE}.small_objects:azure_settings",
    ),
    "gs": StoreSpec(
        f"{_PACKAGE}.file_systems:gcs_file_system", f"{_PACKAGE}.small_objects:fetch_with_pyarrow"
    ),
    "hdfs": StoreSpec(f"{_PACKAGE}.file_systems:hdfs_file_system"),
    "mock": StoreSpec(f"{_PACKAGE}.file_systems:host_file_system"),
}


def store_kind(scheme: str) -> str:
    """The name of a scheme's store, whatever its case: S3A is s3."""
    return STORE_BY_SCHEME.get(scheme.lower(), scheme.lower())


def find_store(scheme: str) -> StoreSpec | None:
    """The store of a scheme; None for one of fsspec."""
    return STORES.get(store_kind(scheme))
