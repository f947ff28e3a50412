"""Which addresses are public."""

import pytest

from lagwatch.notify.public_address import is_public


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
        ("10.0.0.1", False),
        ("192.0.0.8", False),
        ("192.0.0.192", False),
        ("192.88.99.1", False),
        ("168.63.129.16", False),
        ("::ffff:192.0.0.192", False),
        ("192.0.1.1", True),
        ("224.0.0.1", False),
        ("::ffff:224.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b:1::808:808", False),
        ("fd00::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("::1", False),
        ("::ffff:0:127.0.0.1", False),
        ("3fff::1", False),
        ("5f00::1", False),
    ],
)
def test_an_address_is_public_or_not(address, public) -> None:
    assert is_public(address) is public
