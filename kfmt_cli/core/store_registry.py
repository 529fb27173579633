"""The stores that pyarrow supports; fsspec has a registry for others.

To add one, write a function that creates its file system, and add a line to `STORES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kfmt_cli.core.credentials import STORE_KIND_BY_SCHEME


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store. Its functions are given as `module:name` and imported when the store is used."""

    file_system_target: str
    """Creates the file system of a scheme and host; also returns the path of its root."""
    fetch_target: str = ""
    """Fetches an object in one request; pyarrow needs two."""
    settings_target: str = ""
    """Returns the settings of a file system as options of Rust's object_store."""


_CORE_PACKAGE = "kfmt_cli.core"
STORES: Mapping[str, StoreSpec] = {
    "s3": StoreSpec(
        f"{_CORE_PACKAGE}.file_systems:s3_file_system",
        f"{_CORE_PACKAGE}.small_objects:fetch_with_obstore",
        f"{_CORE_PACKAGE}.small_objects:s3_settings",
    ),
    "abfs": StoreSpec(
        f"{_CORE_PACKAGE}.file_systems:azure_file_system",
        f"{_CORE_PACKAGE}.small_objects:fetch_with_obstore",
        f"{_CORE_PACKAGE}.small_objects:azure_settings",
    ),
    "gs": StoreSpec(
        f"{_CORE_PACKAGE}.file_systems:gcs_file_system",
        f"{_CORE_PACKAGE}.small_objects:fetch_with_pyarrow",
    ),
    "hdfs": StoreSpec(f"{_CORE_PACKAGE}.file_systems:hdfs_file_system"),
    "mock": StoreSpec(f"{_CORE_PACKAGE}.file_systems:host_file_system"),
}


def store_kind(scheme: str) -> str:
    """The name of a scheme's store, whatever its case: S3A is s3."""
    return STORE_KIND_BY_SCHEME.get(scheme.lower(), scheme.lower())


def find_store(scheme: str) -> StoreSpec | None:
    """The store of a scheme; None if only fsspec may support it."""
    return STORES.get(store_kind(scheme))
