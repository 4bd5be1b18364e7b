"""Fixtures that several folders share."""

import logging
import subprocess
from pathlib import Path

import pytest
import structlog

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture(autouse=True)
def _no_logs_of_a_main_outlive_its_test():
    """Undo `configure_logs`: the stderr that it was given is closed by now."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def find_tool():
    """Find a program as `tools/NAME` does; the test is skipped where there is none."""

    def find(name):
        found = subprocess.run([TOOLS / name], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            pytest.skip(found.stderr.strip())
        return found.stdout.strip()

    return find
