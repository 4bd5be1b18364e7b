"""Where a client finds the files of its connection."""

from pathlib import Path

import pytest

from justitia.client import SchedulerError, TlsFiles

CA, CERT, KEY = ({f"JUSTITIA_TLS_{name}": f"/tls/{name}.pem"} for name in ("CA", "CERT", "KEY"))


def test_files_are_those_that_the_environment_names():
    assert TlsFiles.from_environment(CA) == TlsFiles(ca=Path("/tls/CA.pem"))
    assert TlsFiles.from_environment(CA | CERT | KEY) == TlsFiles(
        ca=Path("/tls/CA.pem"), cert=Path("/tls/CERT.pem"), key=Path("/tls/KEY.pem")
    )


@pytest.mark.parametrize("variables", [{}, dict.fromkeys(CA | CERT | KEY, "")])
def test_without_an_authority_nothing_is_encrypted(variables):
    assert TlsFiles.from_environment(variables) is None


@pytest.mark.parametrize("variables", [CA | CERT, CA | KEY, CERT | KEY, KEY])
def test_files_that_lack_another_are_refused(variables):
    with pytest.raises(SchedulerError, match="JUSTITIA_TLS_CERT and JUSTITIA_TLS_KEY must be set"):
        TlsFiles.from_environment(variables)
