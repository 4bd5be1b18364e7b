"""Folders that outlive a test run: what took minutes to build is built once."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from kube.errors import Progress


def cache_folder() -> Path:
    """Folder of everything that later runs use again, below the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "justitia" / "cluster"


def runs_folder() -> Path:
    """Folder of the sandboxes that live now."""
    return cache_folder() / "runs"


@contextlib.contextmanager
def exclusive(path: Path, *, progress: Progress) -> Iterator[None]:
    """Hold a lock file; says so when another process must be waited for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for the process that holds {path}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
