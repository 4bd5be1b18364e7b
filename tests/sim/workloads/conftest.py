import json

import pytest


@pytest.fixture(scope="session")
def shared_tokens():
    """How many first tokens two prompts have in common, as ``Segment`` says."""

    def count(left, right):
        shared = 0
        for a, b in zip(left, right, strict=False):
            if a.stream != b.stream:
                break
            shared += min(a.tokens, b.tokens)
            if a != b:
                break
        return shared

    return count


@pytest.fixture
def write(tmp_path):
    """Write a file of rows, each a dict or a line as it stands, and return its path."""

    def write_rows(name, rows):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write_rows
