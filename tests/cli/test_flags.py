"""Addresses as flags of our processes give them."""

import pytest

from justitia.flags import split_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:65535", ("::1", 65535)), (":80", ("", 80))],
)
def test_host_and_port_are_told_apart(address, expected):
    assert split_address("listen_address", address) == expected


@pytest.mark.parametrize("port", ["", "²", "١٢", "-1", "65536", "1.5", " 80", "9" * 5000])
def test_a_port_that_is_no_number_is_refused_by_field(port):
    with pytest.raises(ValueError, match="listen_address: must be host:port"):
        split_address("listen_address", f"127.0.0.1:{port}")
