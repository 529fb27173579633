"""A Spark session for kfmt, and clear messages if it cannot start."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as Late
from concurrent.futures import wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import kfmt_cli
from kfmt_cli.core.claims import scratch_folder
from kfmt_cli.core.parallel import aside
from kfmt_cli.errors import SessionError, UsageError
from kfmt_cli.spark.tasks import LAST_PATIENCE, in_tasks

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kfmt_cli.spark.worker import Spark

    Start = Callable[[str, dict[str, str], float], AbstractContextManager[Spark]]

T = TypeVar("T")

SCHEME = "sc://"  # of a server of Spark Connect
PATIENCE = 60.0  # seconds
HESITATION = 0.5  # seconds
LEAST_JAVA = 17
LEAST_SPARK = (4, 0)
NO_UI = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
}
# Spark only hands tasks to Python: to optimise its own code costs more CPU than it gains.
FAST_START = "-XX:TieredStopAtLevel=1"
QUIET = """status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def check_packages() -> None:
    """Raise UsageError if pyspark or pyarrow is missing or too old."""
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"{name} is not installed: pip install 'kfmt-cli[spark]'")
    import pyspark

    version = tuple(int(digits) for digits in re.findall(r"\d+", pyspark.__version__)[:2])
    if version < LEAST_SPARK:
        raise UsageError(
            f"pyspark {pyspark.__version__} is too old; 4.0 or newer is needed: pip install -U "
            "'kfmt-cli[spark]'"
        )


def check_java() -> None:
    """Raise SessionError if there is no Java that Spark supports."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    need = f"Spark needs Java {LEAST_JAVA} or newer"
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "java was not found"
        raise SessionError(f"{need}, but {where}; install a JDK, or set JAVA_HOME")
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, timeout=30, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"{need}, but {java} does not run: {error}") from error
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if found is None:
        raise SessionError(f"{need}, but {java} -version reports no version")
    version = int(found[2] or 0) if found[1] == "1" else int(found[1])
    if version < LEAST_JAVA:
        raise SessionError(f"{need}, but {java} is Java {version}; set JAVA_HOME to a newer one")


@contextmanager
def session(
    master: str, settings: dict[str, str] | None = None, patience: float = PATIENCE
) -> Iterator[SparkSession]:
    """A session without log output, stopped at the end; raises SessionError, UsageError. For the
    parameters see `started`. Its JVM optimises its code, as it also converts rows."""
    with started(master, settings, patience, java="") as ready:
        yield sql_session(ready())


def sql_session(spark: Spark) -> SparkSession:
    """The session of a context, or the session itself."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkSession(spark) if isinstance(spark, SparkContext) else spark


@contextmanager
def started(
    master: str,
    settings: dict[str, str] | None = None,
    patience: float = PATIENCE,
    java: str = FAST_START,
) -> Iterator[Callable[[], Spark]]:
    """Begin to start Spark, without log output, stopped at the end; raises UsageError. Yields a
    function that waits for it and raises SessionError; do other work before calling it. What fails
    within a moment, such as a wrong path, does not start it.

    master: `sc://…` is a server of Spark Connect. patience: seconds to wait for its start, and for
    a cluster worker's response. java: further options of its own JVM.
    """
    check_packages()
    start: Start = _connected if master.startswith(SCHEME) else partial(_in_own_jvm, java)
    asked, is_over = Event(), Event()
    with ExitStack() as stack:

        def begin() -> Spark:
            asked.wait(HESITATION)
            if is_over.is_set():
                raise SessionError("nothing is to run")
            return stack.enter_context(start(master, settings or {}, patience))

        begun = aside(begin)

        def ready() -> Spark:
            asked.set()
            spark = begun.result()
            for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
                logging.getLogger(name).disabled = True  # each error would be a line of JSON, too
            return spark

        try:
            yield ready
        finally:
            is_over.set()
            asked.set()
            wait([begun])


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


@contextmanager
def _connected(server: str, settings: dict[str, str], patience: float) -> Iterator[SparkSession]:
    """A session on a server of Spark Connect."""
    check_client(shown(server))
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    def start(spark: SparkSession) -> None:
        for name, value in {**DEFAULTS, **settings}.items():
            spark.conf.set(name, value)
        _ship_kfmt(spark)
        ask_a_worker(spark)

    spark = None
    try:
        spark = SparkSession.builder.remote(server).create()
        _in_time(partial(start, spark), patience)
    except (PySparkException, OSError, RuntimeError, ValueError, Late) as error:
        if spark is not None:
            spark.client.close()  # or it asks the server again when the process ends
        raise SessionError(_why(shown(server), error, None, patience)) from error
    try:
        yield spark
    finally:
        with suppress(Exception):
            _in_time(spark.stop, LAST_PATIENCE)


def _ship_kfmt(spark: SparkSession) -> None:
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


@contextmanager
def _in_own_jvm(
    java: str, master: str, settings: dict[str, str], patience: float
) -> Iterator[SparkContext]:
    """A context of this process's own, with its own JVM."""
    if master.startswith("local"):
        check_java()
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    with scratch_folder("spark-") as scratch:
        quiet = scratch / "log4j2.properties"
        quiet.write_text(QUIET)
        log = scratch / "spark.log"
        # Also retry on one machine: without the second number a task has one attempt.
        master = re.sub(r"^local\[(\*|\d+)\]$", r"local[\1,4]", master)
        conf = SparkConf().setMaster(master).setAppName("kfmt")
        for name, value in {**NO_UI, **DEFAULTS, **settings}.items():
            if not conf.contains(name):
                conf.set(name, value)
        gateway: Any = None
        try:
            with _environment(_variables(master, quiet, java)), log.open("wb") as words:
                popen = {"stderr": words, "stdout": words}
                gateway = launch_gateway(conf, popen_kwargs=popen)  # type: ignore[no-untyped-call]
                context = _in_time(lambda: SparkContext(gateway=gateway, conf=conf), patience)
                if not master.startswith("local"):
                    _in_time(lambda: ask_a_worker(context), patience)
        except (PySparkException, Py4JError, OSError, RuntimeError, Late) as error:
            if gateway is not None:
                _end(gateway)
            raise SessionError(_why(master, error, log, patience)) from error
        try:
            yield context
        finally:
            with suppress(Exception):
                sql = SparkSession._instantiatedSession
                (context if sql is None else sql).stop()
            _end(gateway)


def _in_time(make: Callable[[], T], patience: float) -> T:
    """The result of a call; raises TimeoutError if it takes too long."""
    return aside(make).result(timeout=patience)


def ask_a_worker(spark: Spark) -> None:
    """Make a worker import kfmt."""
    from kfmt_cli.spark.worker import carried, home_for

    in_tasks(spark, carried(home_for(spark), bytes), [b""])


def _why(master: str, error: BaseException, log: Path | None, patience: float) -> str:
    """Why the session did not start, in one line."""
    if isinstance(error, Late):
        said = log.read_text(errors="replace").strip().splitlines() if log and log.exists() else []
        last = f": {said[-1].strip()}" if said else ""
        return (
            f"Spark on {master} did not respond within {patience:g} s; raise --patience to wait "
            f"longer{last}"
        )
    return f"Spark did not start on {master}: {reason(error)}"


def _end(gateway: Any) -> None:
    """Stop the JVM, so that the next session of this process starts its own."""
    from pyspark import SparkContext

    with suppress(Exception):
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
    with suppress(Exception):
        gateway.proc.kill()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None


def _variables(master: str, quiet: Path, java: str) -> dict[str, str]:
    """The environment variables for Spark's own process."""
    found = {"LOG4J_CONFIGURATION_FILE": os.environ.get("LOG4J_CONFIGURATION_FILE", str(quiet))}
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        found[name] = f"{java} {os.environ.get(name, '')}".strip()
    if master.startswith("local"):
        # Workers on this machine run this Python, whatever the environment says.
        found["PYSPARK_PYTHON"] = found["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return found


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables until the block ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_TRACEBACK = "Traceback (most recent call last):"
# Spark's text before the reason for a task's failure.
_TASK = re.compile(r"most recent failure: Lost task [^\n]*?executor [^)]*\): ")
_JAVA = re.compile(r"^(?:: |Caused by: )?(?:[\w.$]+\.)?[\w$]*(?:Exception|Error): ")


def reason(error: BaseException) -> str:
    """The reason why a query or job failed, in one line: from the worker's last traceback,
    otherwise from the cause that Spark reports."""
    text = str(error)
    if _TRACEBACK in text:
        last = text.rpartition(_TRACEBACK)[2]
        for line in last.splitlines():
            if line.strip() and not line[0].isspace():
                name, _, words = line.partition(": ")
                return words if name.startswith("kfmt_cli.") and words else line
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    task = _TASK.search(text)
    if task:
        return _JAVA.sub("", text[task.end() :].partition("\n")[0])
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if causes:
        return _JAVA.sub("", causes[-1])
    return lines[0] if lines else type(error).__name__
