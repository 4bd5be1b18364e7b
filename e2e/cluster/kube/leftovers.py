"""Removes what a sandbox leaves outside its namespaces: control groups and its folder.

Everything else (processes, mounts, interfaces, host name) ends with the namespaces themselves.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CGROUP_PREFIX: Final = "justitia-e2e-"
LOCK_NAME: Final = "lock"

_RELEASE_TIMEOUT_S: Final = 10.0
_RELEASE_POLL_S: Final = 0.02


def cgroup_name(folder: Path) -> str:
    """Name of the control groups that belong to the sandbox in ``folder``."""
    return CGROUP_PREFIX + folder.name


def make_cgroups(name: str) -> None:
    """Make an empty control group in every hierarchy of the machine (one with cgroup v2)."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        with contextlib.suppress(PermissionError):  # a hierarchy that is mounted read-only
            group.mkdir(exist_ok=True)
            # A v1 cpuset takes no process before it has processors and memory nodes.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (group / setting).exists() and (
                    hierarchy / "cpuset.sched_load_balance"
                ).exists():
                    (group / setting).write_text((hierarchy / setting).read_text())


def remove_cgroups(name: str) -> None:
    """Remove the groups ``name`` and all below them; their processes must be dead.

    Raises:
        OSError: a group is still in use after some seconds.
    """
    deadline_s = time.monotonic() + _RELEASE_TIMEOUT_S
    for hierarchy in _hierarchies():
        while True:
            try:
                _remove_tree(hierarchy / name)
                break
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_RELEASE_POLL_S)  # a dead process leaves its group a moment later


def remove_folder(folder: Path) -> None:
    """Remove the sandbox's folder, the lock in it last."""
    for entry in folder.iterdir():
        if entry.name == LOCK_NAME:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (folder / LOCK_NAME).unlink(missing_ok=True)
    folder.rmdir()


def remove_stale(runs: Path) -> list[str]:
    """Remove what keepers that were killed left below ``runs``; returns the names."""
    removed = []
    for folder in sorted(runs.iterdir()) if runs.is_dir() else []:
        with _lock_if_free(folder) as is_free:
            if is_free:
                remove_cgroups(cgroup_name(folder))
                remove_folder(folder)
                removed.append(folder.name)
    return removed


def hold_lock(folder: Path) -> int:
    """Mark the sandbox in ``folder`` as alive for as long as this process lives."""
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


@contextlib.contextmanager
def _lock_if_free(folder: Path) -> Iterator[bool]:
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDWR)
    except OSError:  # not yet locked by its keeper, or being removed
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)


def _hierarchies() -> list[Path]:
    """Mount points of all cgroup hierarchies."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    points = {Path(point) for _, point, kind, *_ in mounts if kind in {"cgroup", "cgroup2"}}
    return sorted(points)


def _remove_tree(group: Path) -> None:
    for below, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(FileNotFoundError):
            Path(below).rmdir()
