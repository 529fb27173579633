"""The environment of Spark's workers: the driver's Python and the driver's kfmt.

`SparkContext.pythonExec` selects the Python for every function passed to Spark. Its value is
PYSPARK_PYTHON at the time the context was created, otherwise `python3`, whatever that is. A
worker's module search path begins with its working directory. On one machine, this module fixes
both. On a cluster, where the driver's paths mean nothing, a worker without kfmt or with another
version reports it in one line.
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
from kfmt_cli.core.file_systems import AZURE_KEYS

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    Spark = SparkContext | SparkSession
    """Where tasks run. A context is enough for them: to load Spark's SQL takes seconds."""

LOG = logging.getLogger("kfmt_cli")


@dataclass(frozen=True, slots=True)
class Home:
    """The driver's kfmt."""

    folder: str | None
    """The package directory, None if workers need their own kfmt."""
    prefix: str = sys.prefix
    """The environment of the driver's Python."""
    version: str = kfmt_cli.__version__
    stores: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Environment variables for access to object stores."""


# Hadoop's names for pyarrow's environment variables for S3-compatible stores.
_S3A = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
    "endpoint.region": "AWS_DEFAULT_REGION",
}
# Prefixes of the environment variables for stores.
_NAMED = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST")
# Hadoop's name for an Azure account key.
_AZURE = re.compile(r"spark\.hadoop\.fs\.azure\.account\.key\.(\w+)\.")


def stores_of(spark: Spark) -> dict[str, str]:
    """Environment variables for access to object stores: this process's on one machine, and the
    session's `spark.hadoop.fs.s3a.*` and `spark.hadoop.fs.azure.account.key.*` settings."""
    found = {}
    if is_on_this_machine(context_of(spark)):
        found = {name: value for name, value in os.environ.items() if name.startswith(_NAMED)}
    conf, prefix = settings_of(spark), "spark.hadoop.fs.s3a."
    for name, variable in _S3A.items():
        if (value := conf.get(prefix + name)) is not None:
            found[variable] = value
    endpoint = conf.get(f"{prefix}endpoint")
    if endpoint is not None:
        is_plain = conf.get(f"{prefix}connection.ssl.enabled") == "false"
        scheme = "" if "://" in endpoint else "http://" if is_plain else "https://"
        found["AWS_ENDPOINT_URL"] = scheme + endpoint
    keys = {of[1]: value for name, value in conf.items() if (of := _AZURE.match(name))}
    if keys:
        found[AZURE_KEYS] = ";".join(f"{account}={key}" for account, key in keys.items())
    return found


def is_on_this_machine(context: SparkContext | None) -> bool:
    """Whether the workers of a context run on the driver's machine; nobody knows it of those of
    Spark Connect, which has no context."""
    return context is not None and (context.master or "").startswith("local")


def settings_of(spark: Spark) -> dict[str, str]:
    """The settings, by name."""
    from pyspark import SparkContext

    return dict(spark.getConf().getAll()) if isinstance(spark, SparkContext) else spark.conf.getAll


def context_of(spark: Spark) -> SparkContext | None:
    """The context of a session; None for Spark Connect, which has none."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    if isinstance(spark, SparkContext):
        return spark
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):
        return None


def home_for(spark: Spark) -> Home:
    """The kfmt for the workers of a session; sets the stores' variables in this process."""
    folder = Path(kfmt_cli.__file__).parent
    here = is_on_this_machine(context_of(spark)) and folder.is_dir()
    stores = stores_of(spark)
    os.environ.update(stores)  # the driver lists files with them
    return Home(str(folder) if here else None, stores=tuple(stores.items()))


@contextmanager
def drivers_python(context: SparkContext | None) -> Iterator[None]:
    """Run functions passed to Spark in the driver's Python, if it is on one machine."""
    if context is None or not is_on_this_machine(context) or not sys.executable:
        yield
        return
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def advise(context: SparkContext | None) -> None:
    """Log the settings to make if no Python is configured for a cluster's workers."""
    if context is None or is_on_this_machine(context) or context.pythonExec != "python3":
        return
    LOG.warning(
        "kfmt: workers run their machine's python3, which needs kfmt-cli %s. To use another "
        "Python, set PYSPARK_PYTHON before the session starts",
        kfmt_cli.__version__,
    )


def carried(home: Home, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to check the worker's kfmt, and import the driver's on one machine, first.

    Spark pickles the result by value, as it is defined inside another function. It must therefore
    not refer to kfmt: anything it refers to is imported before it runs.
    """
    from pyspark import cloudpickle

    data = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    folder, prefix, version, stores = home.folder, home.prefix, home.version, dict(home.stores)

    def run(*arguments: Any) -> Any:
        import importlib.util
        import os
        import pickle
        import sys

        os.environ.update(stores)
        place = os.path.join(folder, "__init__.py") if folder and sys.prefix == prefix else None  # noqa: PTH118
        if place and getattr(sys.modules.get("kfmt_cli"), "__file__", None) != place:
            for name in [
                module for module in sys.modules if module.partition(".")[0] == "kfmt_cli"
            ]:
                del sys.modules[name]
            spec = importlib.util.spec_from_file_location(
                "kfmt_cli", place, submodule_search_locations=[str(folder)]
            )
            assert spec is not None
            assert spec.loader is not None
            sys.modules["kfmt_cli"] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        try:
            found = importlib.import_module("kfmt_cli").__version__
        except ModuleNotFoundError:
            found = "none"
        if found != version:
            raise RuntimeError(
                f"the driver has kfmt-cli {version}, but the worker's Python, {sys.executable}, "
                f"has {found}: before the session starts, set PYSPARK_PYTHON to a Python with "
                f"kfmt-cli {version} on every machine"
            )
        return pickle.loads(data)(*arguments)  # noqa: S301 (the driver's own)

    return run
