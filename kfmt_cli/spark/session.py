"""A Spark session for kfmt, and clear messages if it cannot start."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures import wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import kfmt_cli
from kfmt_cli.core.parallel import run_in_daemon_thread
from kfmt_cli.core.temporary_locks import scratch_directory
from kfmt_cli.errors import SessionError, UsageError
from kfmt_cli.spark.tasks import CANCEL_TIMEOUT_SECONDS, run_in_tasks

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kfmt_cli.spark.worker import Spark

    SessionFactory = Callable[[str, dict[str, str], float], AbstractContextManager[Spark]]

ResultT = TypeVar("ResultT")

CONNECT_SCHEME = "sc://"  # of a Spark Connect server
SHIPPED_FILES = ("*.py", "*.json", "*.md")  # of this package, sent to workers without it
DEFAULT_PATIENCE_SECONDS = 60.0
START_DELAY_SECONDS = 0.5  # work that fails within this time does not start Spark
MIN_JAVA_VERSION = 17
MIN_SPARK_VERSION = (4, 0)
NO_UI_SETTINGS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
DEFAULT_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
}
# Spark only passes tasks to Python: optimising its own code costs more CPU than it saves.
FAST_START_JVM_OPTION = "-XX:TieredStopAtLevel=1"
LOG4J_CONFIG = """status = error
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
    if version < MIN_SPARK_VERSION:
        raise UsageError(
            f"pyspark {pyspark.__version__} is too old; 4.0 or newer is needed: pip install -U "
            "'kfmt-cli[spark]'"
        )


def check_java() -> None:
    """Raise SessionError if there is no Java that Spark supports."""
    java_home = os.environ.get("JAVA_HOME")
    java_path = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java")
    requirement = f"Spark needs Java {MIN_JAVA_VERSION} or newer"
    if java_path is None or not Path(java_path).exists():
        problem = (
            f"JAVA_HOME is {java_home}, which has no bin/java"
            if java_home
            else "java was not found"
        )
        raise SessionError(f"{requirement}, but {problem}; install a JDK, or set JAVA_HOME")
    try:
        version_process = subprocess.run(
            [java_path, "-version"], capture_output=True, timeout=30, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SessionError(f"{requirement}, but {java_path} does not run: {error}") from error
    version_match = re.search(
        r'version "(\d+)(?:\.(\d+))?', version_process.stderr + version_process.stdout
    )
    if version_match is None:
        raise SessionError(f"{requirement}, but {java_path} -version reports no version")
    version = int(version_match[2] or 0) if version_match[1] == "1" else int(version_match[1])
    if version < MIN_JAVA_VERSION:
        raise SessionError(
            f"{requirement}, but {java_path} is Java {version}; set JAVA_HOME to a newer one"
        )


@contextmanager
def open_sql_session(
    master: str,
    settings: dict[str, str] | None = None,
    timeout_seconds: float = DEFAULT_PATIENCE_SECONDS,
) -> Iterator[SparkSession]:
    """A session without log output, stopped at the end; raises SessionError, UsageError. For the
    parameters see `start_session`. Its JVM optimises its code, as it also converts rows."""
    with start_session(master, settings, timeout_seconds, jvm_options="") as wait_for_session:
        yield sql_session(wait_for_session())


def sql_session(spark: Spark) -> SparkSession:
    """The session of a context, or the session itself."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkSession(spark) if isinstance(spark, SparkContext) else spark


@contextmanager
def start_session(
    master: str,
    settings: dict[str, str] | None = None,
    timeout_seconds: float = DEFAULT_PATIENCE_SECONDS,
    jvm_options: str = FAST_START_JVM_OPTION,
) -> Iterator[Callable[[], Spark]]:
    """Start Spark in the background, without log output, and stop it at the end; raises UsageError.
    Yields a function that waits for the session and raises SessionError; do other work before
    calling it. Work that fails within a moment, such as for a wrong path, does not start Spark.

    master: `sc://…` is a Spark Connect server. timeout_seconds: seconds to wait for the start, and
    for a cluster worker's response. jvm_options: further options of a JVM that this process starts.
    """
    check_packages()
    open_session: SessionFactory = (
        _connect_session
        if master.startswith(CONNECT_SCHEME)
        else partial(_open_jvm_context, jvm_options)
    )
    start_event, end_event = Event(), Event()
    with ExitStack() as exit_stack:

        def start_when_requested() -> Spark:
            start_event.wait(START_DELAY_SECONDS)
            if end_event.is_set():
                raise SessionError("nothing to run")
            return exit_stack.enter_context(open_session(master, settings or {}, timeout_seconds))

        session_future = run_in_daemon_thread(start_when_requested)

        def wait_for_session() -> Spark:
            start_event.set()
            spark = session_future.result()
            for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
                logging.getLogger(name).disabled = True  # each error would also be a line of JSON
            return spark

        try:
            yield wait_for_session
        finally:
            end_event.set()
            start_event.set()
            wait([session_future])


def check_connect_packages(server_url: str) -> None:
    """Raise UsageError if a package is missing that a client of Spark Connect needs."""
    try:
        import pyspark.sql.connect.session  # noqa: F401 (it checks all packages)
    except (ImportError, SystemExit) as error:  # pyspark's own checks exit
        raise UsageError(
            f"{server_url} needs the packages of Spark Connect: pip install 'pyspark[connect]'"
        ) from error


def format_server_address(server_url: str) -> str:
    """The address of a server without its parameters, one of which may be a token."""
    return server_url.partition("/;")[0]


@contextmanager
def _connect_session(
    server_url: str, settings: dict[str, str], timeout_seconds: float
) -> Iterator[SparkSession]:
    """A session on a server of Spark Connect."""
    check_connect_packages(format_server_address(server_url))
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    def configure_session(spark: SparkSession) -> None:
        for setting_name, value in {**DEFAULT_SETTINGS, **settings}.items():
            spark.conf.set(setting_name, value)
        _ship_kfmt(spark)
        check_worker_import(spark)

    spark = None
    try:
        spark = SparkSession.builder.remote(server_url).create()
        _run_with_timeout(partial(configure_session, spark), timeout_seconds)
    except (PySparkException, OSError, RuntimeError, ValueError, FutureTimeoutError) as error:
        if spark is not None:
            spark.client.close()  # or it asks the server again when the process ends
        raise SessionError(
            _format_start_failure(format_server_address(server_url), error, None, timeout_seconds)
        ) from error
    try:
        yield spark
    finally:
        with suppress(Exception):
            _run_with_timeout(spark.stop, CANCEL_TIMEOUT_SECONDS)


def _ship_kfmt(spark: SparkSession) -> None:
    """Send kfmt's modules to the workers of a session, if their Python has no kfmt."""

    def find_kfmt(_: bytes) -> bytes:  # in here, so that Spark pickles it by value
        import importlib.util

        return b"kfmt" if importlib.util.find_spec("kfmt_cli") is not None else b""

    if run_in_tasks(spark, find_kfmt, [b""]) == [b""]:
        with scratch_directory("spark") as scratch_path:
            archive_path = scratch_path / "kfmt_cli.zip"
            package_directory = Path(kfmt_cli.__file__).parent
            with zipfile.ZipFile(archive_path, "w", zipfile.ZIP_DEFLATED) as archive:
                for pattern in SHIPPED_FILES:
                    for path in sorted(package_directory.rglob(pattern)):
                        archive.write(path, path.relative_to(package_directory.parent))
            spark.addArtifacts(str(archive_path), pyfile=True)


@contextmanager
def _open_jvm_context(
    jvm_options: str, master: str, settings: dict[str, str], timeout_seconds: float
) -> Iterator[SparkContext]:
    """A context in this process, with its own JVM."""
    if master.startswith("local"):
        check_java()
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    with scratch_directory("spark") as scratch_path:
        log_config_path = scratch_path / "log4j2.properties"
        log_config_path.write_text(LOG4J_CONFIG)
        log_path = scratch_path / "spark.log"
        # Also retry on one machine: without the second number a task has one attempt.
        master = re.sub(r"^local\[(\*|\d+)\]$", r"local[\1,4]", master)
        conf = SparkConf().setMaster(master).setAppName("kfmt")
        local_settings = {}
        if master.startswith("local"):  # elsewhere, executors would look for the same path
            local_settings["spark.local.dir"] = str(scratch_path)
        default_settings = {**NO_UI_SETTINGS, **DEFAULT_SETTINGS, **local_settings}
        for name, value in {**default_settings, **settings}.items():
            if not conf.contains(name):
                conf.set(name, value)
        gateway: Any = None
        try:
            with (
                _set_environment(_jvm_environment(master, log_config_path, jvm_options)),
                log_path.open("wb") as log_file,
            ):
                popen_arguments = {"stderr": log_file, "stdout": log_file}
                gateway = launch_gateway(conf, popen_kwargs=popen_arguments)  # type: ignore[no-untyped-call]
                context = _run_with_timeout(
                    lambda: SparkContext(gateway=gateway, conf=conf), timeout_seconds
                )
                if not master.startswith("local"):
                    _run_with_timeout(lambda: check_worker_import(context), timeout_seconds)
        except (PySparkException, Py4JError, OSError, RuntimeError, FutureTimeoutError) as error:
            if gateway is not None:
                _stop_jvm(gateway)
            raise SessionError(
                _format_start_failure(master, error, log_path, timeout_seconds)
            ) from error
        try:
            yield context
        finally:
            with suppress(Exception):
                active_session = SparkSession._instantiatedSession
                (context if active_session is None else active_session).stop()
            _stop_jvm(gateway)


def _run_with_timeout(function: Callable[[], ResultT], timeout_seconds: float) -> ResultT:
    """The result of a call; raises TimeoutError if it takes too long."""
    return run_in_daemon_thread(function).result(timeout=timeout_seconds)


def check_worker_import(spark: Spark) -> None:
    """Make a worker import kfmt."""
    from kfmt_cli.spark.worker import prepare_driver_environment, wrap_with_driver_kfmt

    run_in_tasks(spark, wrap_with_driver_kfmt(prepare_driver_environment(spark), bytes), [b""])


def _format_start_failure(
    master: str, error: BaseException, log_path: Path | None, timeout_seconds: float
) -> str:
    """A message in one line: why the session did not start."""
    if isinstance(error, FutureTimeoutError):
        log_lines = (
            log_path.read_text(errors="replace").strip().splitlines()
            if log_path and log_path.exists()
            else []
        )
        last_line = f": {log_lines[-1].strip()}" if log_lines else ""
        return (
            f"Spark on {master} did not respond within {timeout_seconds:g} s; raise --patience "
            "to wait "
            f"longer{last_line}"
        )
    return f"Spark did not start on {master}: {find_failure_reason(error)}"


def _stop_jvm(gateway: Any) -> None:
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


def _jvm_environment(master: str, log_config_path: Path, jvm_options: str) -> dict[str, str]:
    """The environment variables for Spark's own process."""
    variables = {
        "LOG4J_CONFIGURATION_FILE": os.environ.get("LOG4J_CONFIGURATION_FILE", str(log_config_path))
    }
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        variables[name] = f"{jvm_options} {os.environ.get(name, '')}".strip()
    if master.startswith("local"):
        # Workers on this machine run this Python, whatever the environment sets.
        variables["PYSPARK_PYTHON"] = variables["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return variables


@contextmanager
def _set_environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables until the block ends."""
    previous_values = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, previous_value in previous_values.items():
            if previous_value is None:
                del os.environ[name]
            else:
                os.environ[name] = previous_value


_TRACEBACK = "Traceback (most recent call last):"
# Spark's text before the reason for a task's failure.
_TASK_FAILURE = re.compile(r"most recent failure: Lost task [^\n]*?executor [^)]*\): ")
_JAVA_EXCEPTION = re.compile(r"^(?:: |Caused by: )?(?:[\w.$]+\.)?[\w$]*(?:Exception|Error): ")


def find_failure_reason(error: BaseException) -> str:
    """The reason why a query or job failed, in one line: from the worker's last traceback,
    otherwise from the cause that Spark reports."""
    error_text = str(error)
    if _TRACEBACK in error_text:
        last_traceback = error_text.rpartition(_TRACEBACK)[2]
        for line in last_traceback.splitlines():
            if line.strip() and not line[0].isspace():
                exception_name, _, message = line.partition(": ")
                return message if exception_name.startswith("kfmt_cli.") and message else line
    text_lines = [line.strip() for line in error_text.splitlines() if line.strip()]
    failure_match = _TASK_FAILURE.search(error_text)
    if failure_match:
        return _JAVA_EXCEPTION.sub("", error_text[failure_match.end() :].partition("\n")[0])
    cause_lines = [line for line in text_lines if line.startswith("Caused by: ")]
    if cause_lines:
        return _JAVA_EXCEPTION.sub("", cause_lines[-1])
    return text_lines[0] if text_lines else type(error).__name__
