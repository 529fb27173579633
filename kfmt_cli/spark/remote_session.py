"""A session of Spark Connect, which runs on a server."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import kfmt_cli
from kfmt_cli.errors import UsageError
from kfmt_cli.spark.tasks import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"


def check_client(server: str) -> None:
    """Raise UsageError if a package is missing that a client of Spark Connect needs."""
    try:
        import pyspark.sql.connect.session  # noqa: F401 (it checks all of them)
    except (ImportError, SystemExit) as error:  # pyspark's own tests exit there
        raise UsageError(
            f"{server} needs the packages of Spark Connect: pip install 'pyspark[connect]'"
        ) from error


def shown(server: str) -> str:
    """The address of a server without its parameters, one of which may be a token."""
    return server.partition("/;")[0]


def connect(server: str) -> SparkSession:
    """A session on a server, which has not been asked anything; raises PySparkException."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(server).create()


def prepare(spark: SparkSession, settings: dict[str, str]) -> None:
    """Make the settings, and give the workers kfmt; raises PySparkException."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    ship_kfmt(spark)


def ship_kfmt(spark: SparkSession) -> None:
    """Give the workers of a session kfmt's modules, if their Python has none."""

    def found(_: bytes) -> bytes:  # in here, so that Spark pickles it by value
        import importlib.util

        return b"kfmt" if importlib.util.find_spec("kfmt_cli") is not None else b""

    if in_tasks(spark, found, [b""]) == [b""]:
        with tempfile.TemporaryDirectory(prefix="kfmt-spark-") as scratch:
            modules = Path(scratch) / "kfmt_cli.zip"
            package = Path(kfmt_cli.__file__).parent
            with zipfile.ZipFile(modules, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in sorted((*package.rglob("*.py"), *package.rglob("*.json"))):
                    archive.write(path, path.relative_to(package.parent))
            spark.addArtifacts(str(modules), pyfile=True)
