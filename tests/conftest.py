"""Fixtures that several folders share."""

import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture(scope="session")
def find_tool():
    """Find a program as `tools/NAME` does; the test is skipped where there is none."""

    def find(name):
        found = subprocess.run([TOOLS / name], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            pytest.skip(found.stderr.strip())
        return found.stdout.strip()

    return find
