import sys

import pytest

from justitia.cli.main import main


@pytest.fixture
def in_process(monkeypatch, capsys):
    """Make a program's main a call that returns (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def program(name, main):
        def run(*arguments):
            monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
            with pytest.raises(SystemExit) as ended:
                main()
            printed = capsys.readouterr()
            return ended.value.code, printed.out, printed.err

        return run

    return program


@pytest.fixture
def justitia(in_process):
    """Run the command in this process; returns (exit status, stdout, stderr)."""
    return in_process("justitia", main)
