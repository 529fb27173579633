"""The environment of Spark's workers: the driver's Python and the driver's kfmt.

`SparkContext.pythonExec` selects the Python for every function passed to Spark. Its value is
PYSPARK_PYTHON at the time the context was created, otherwise `python3`. A worker's module search
path begins with its working directory. On one machine, this module fixes both. On a cluster, where
the driver's paths mean nothing, a worker without kfmt or with another version reports it in one
line.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kfmt_cli
from kfmt_cli.core.file_systems import AZURE_KEYS_VARIABLE

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    Spark = SparkContext | SparkSession
    """Runs tasks. A context is enough for them: loading Spark's SQL takes seconds."""

WORKER_LOGGER = logging.getLogger("kfmt_cli")


@dataclass(frozen=True, slots=True)
class DriverEnvironment:
    """The driver's kfmt."""

    package_directory: str | None
    """The package directory, None if workers need their own kfmt."""
    python_prefix: str = sys.prefix
    """The `sys.prefix` of the driver's Python."""
    version: str = kfmt_cli.__version__
    store_variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Environment variables for access to object stores."""


# Hadoop's names for pyarrow's environment variables for S3-compatible stores.
_VARIABLE_BY_S3A_SETTING = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint.region": "AWS_DEFAULT_REGION",
}
# Prefixes of the environment variables for stores.
_STORE_VARIABLE_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST")
# Hadoop's name for an Azure account key.
_AZURE_KEY_SETTING = re.compile(r"spark\.hadoop\.fs\.azure\.account\.key\.(\w+)\.")


def find_store_variables(spark: Spark) -> dict[str, str]:
    """Environment variables for access to object stores: this process's on one machine, and the
    session's `spark.hadoop.fs.s3a.*` and `spark.hadoop.fs.azure.account.key.*` settings."""
    store_variables = {}
    if has_local_workers(find_spark_context(spark)):
        store_variables = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_STORE_VARIABLE_PREFIXES)
        }
    settings, s3a_prefix = spark_settings(spark), "spark.hadoop.fs.s3a."
    for name, variable in _VARIABLE_BY_S3A_SETTING.items():
        if (value := settings.get(s3a_prefix + name)) is not None:
            store_variables[variable] = value
    endpoint = settings.get(f"{s3a_prefix}endpoint")
    if endpoint is not None:
        is_http = settings.get(f"{s3a_prefix}connection.ssl.enabled") == "false"
        scheme = "" if "://" in endpoint else "http://" if is_http else "https://"
        store_variables["AWS_ENDPOINT_URL"] = scheme + endpoint
    key_by_account = {
        match[1]: value
        for name, value in settings.items()
        if (match := _AZURE_KEY_SETTING.match(name))
    }
    if key_by_account:
        store_variables[AZURE_KEYS_VARIABLE] = ";".join(
            f"{account}={key}" for account, key in key_by_account.items()
        )
    return store_variables


def has_local_workers(context: SparkContext | None) -> bool:
    """Whether the workers of a context run on the driver's machine; False for Spark Connect, which
    has no context and whose workers may run anywhere."""
    return context is not None and (context.master or "").startswith("local")


def spark_settings(spark: Spark) -> dict[str, str]:
    """The Spark settings by name."""
    from pyspark import SparkContext

    return dict(spark.getConf().getAll()) if isinstance(spark, SparkContext) else spark.conf.getAll


def find_spark_context(spark: Spark) -> SparkContext | None:
    """The context of a session; None for Spark Connect, which has none."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    if isinstance(spark, SparkContext):
        return spark
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):
        return None


def prepare_driver_environment(spark: Spark) -> DriverEnvironment:
    """The kfmt for the workers of a session; sets the stores' variables in this process."""
    package_directory = Path(kfmt_cli.__file__).parent
    is_package_shared = has_local_workers(find_spark_context(spark)) and package_directory.is_dir()
    store_variables = find_store_variables(spark)
    os.environ.update(store_variables)  # the driver lists files with them
    return DriverEnvironment(
        str(package_directory) if is_package_shared else None,
        store_variables=tuple(store_variables.items()),
    )


@contextmanager
def use_driver_python(context: SparkContext | None) -> Iterator[None]:
    """Run functions passed to Spark in the driver's Python, if the workers are on its machine."""
    if context is None or not has_local_workers(context) or not sys.executable:
        yield
        return
    previous_python = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = previous_python


def warn_missing_python(context: SparkContext | None) -> None:
    """Log the settings to make if no Python is configured for a cluster's workers."""
    if context is None or has_local_workers(context) or context.pythonExec != "python3":
        return
    WORKER_LOGGER.warning(
        "kfmt: workers run their machine's python3, which needs kfmt-cli %s. To use another "
        "Python, set PYSPARK_PYTHON before the session starts",
        kfmt_cli.__version__,
    )


def wrap_with_driver_kfmt(
    driver_env: DriverEnvironment, function: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap a function to check the worker's kfmt, and import the driver's on one machine, first.

    Spark pickles the result by value, as it is defined inside another function. It must therefore
    not refer to kfmt: anything it refers to is imported before it runs.
    """
    from pyspark import cloudpickle

    pickled_function = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    package_directory = driver_env.package_directory
    python_prefix = driver_env.python_prefix
    version = driver_env.version
    store_variables = dict(driver_env.store_variables)

    def run_with_driver_kfmt(*arguments: Any) -> Any:
        import importlib.util
        import os
        import pickle
        import sys

        os.environ.update(store_variables)
        init_path = (
            os.path.join(package_directory, "__init__.py")  # noqa: PTH118
            if package_directory and sys.prefix == python_prefix
            else None
        )
        if init_path and getattr(sys.modules.get("kfmt_cli"), "__file__", None) != init_path:
            for module_name in [
                module for module in sys.modules if module.partition(".")[0] == "kfmt_cli"
            ]:
                del sys.modules[module_name]
            spec = importlib.util.spec_from_file_location(
                "kfmt_cli", init_path, submodule_search_locations=[str(package_directory)]
            )
            assert spec is not None
            assert spec.loader is not None
            sys.modules["kfmt_cli"] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        try:
            worker_version = importlib.import_module("kfmt_cli").__version__
        except ModuleNotFoundError:
            worker_version = "none"
        if worker_version != version:
            raise RuntimeError(
                f"the driver has kfmt-cli {version}, but the worker's Python, {sys.executable}, "
                f"has {worker_version}: before the session starts, set PYSPARK_PYTHON to a Python "
                f"with kfmt-cli {version} on every machine"
            )
        return pickle.loads(pickled_function)(*arguments)  # noqa: S301 (the driver's own)

    return run_with_driver_kfmt
