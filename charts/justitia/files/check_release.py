# ruff: noqa: INP001  mounted alone
"""What `helm test` runs: the scheduler service answers, and every pool serves and is connected."""

import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from justitia import __version__
from justitia.client import Client, SchedulerError, TlsFiles, connect

ADDRESS = os.environ["JUSTITIA_SCHEDULER_ADDRESS"]
TIMEOUT_S = float(os.environ.get("CHECK_TIMEOUT_S", "300"))
PERIOD_S = 2.0


def tls_files() -> TlsFiles | None:
    """Read which files the chart mounted."""
    paths = {name: os.environ.get(f"JUSTITIA_TLS_{name.upper()}") for name in ("ca", "cert", "key")}
    if paths["ca"] is None:
        return None
    return TlsFiles(**{name: Path(path) for name, path in paths.items() if path is not None})


def problem_of_pool(client: Client, pool: str, url: str) -> str:
    """Say in one sentence what is wrong with a pool; empty: nothing."""
    try:
        engines = client.describe_pool(pool).engines
    except SchedulerError as error:
        return f"pool {pool}: {error}"
    if not engines:
        return f"pool {pool}: no engine is connected to the scheduler service"
    for engine in engines:
        if engine.plugin_version != __version__:
            return (
                f"pool {pool}: engine {engine.engine_id} has plugin {engine.plugin_version},"
                f" and the scheduler service is {__version__}: use images of one version"
            )
    # Encryption is what is checked here, not who signed it: the pods' trust is their own affair.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10, context=context):  # noqa: S310
            return ""
    except (urllib.error.URLError, OSError) as error:
        return f"pool {pool}: {url}/health: {error}"


def main() -> int:
    """Wait until all is well, or say what is not."""
    deadline_s = time.monotonic() + TIMEOUT_S
    lines = os.environ.get("CHECK_POOLS", "").split("\n")
    pools = [line.split() for line in lines if line.strip()]
    with connect(ADDRESS, tls=tls_files()) as client:
        while True:
            try:
                client.list_applications()
                problems = [p for key, url in pools if (p := problem_of_pool(client, key, url))]
            except SchedulerError as error:
                problems = [str(error)]
            if not problems:
                print(f"ok: the scheduler service and {len(pools)} pools")  # noqa: T201
                return 0
            if time.monotonic() > deadline_s:
                print("\n".join(problems), file=sys.stderr)  # noqa: T201
                return 1
            time.sleep(PERIOD_S)


if __name__ == "__main__":
    sys.exit(main())
