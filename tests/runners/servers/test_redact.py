"""A key in every way a server may write it."""

import base64
import json
from urllib.parse import quote

import pytest

from qualm.runners.servers.client import redact, reveals

KEY = "sk-very/secret+0123456789"


@pytest.mark.parametrize("before", [b"", b"B", b"Be", b"Bearer ", b"user:"])
@pytest.mark.parametrize("coded", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_at_any_place(before, coded):
    text = coded(before + KEY.encode() + b" and more").decode()
    assert reveals(text, KEY) and KEY.encode()[4:16] not in base64.urlsafe_b64decode(redact(text, KEY).replace("[key]", "A" * 4)[:8])
    assert len(redact(text, KEY)) < len(text) - 20


@pytest.mark.parametrize("before", [b"", b"B", b"Be"])
def test_base64_of_a_key_of_six_letters(before):
    """Its inner letters are seven or six: few, but a server that echoes it has given it away."""
    coded = base64.b64encode(before + b"k3y-Q7").decode()
    assert "[key]" in redact(coded, "k3y-Q7")


@pytest.mark.parametrize("before", [b"B", b"Be"])
def test_base64_of_a_key_of_four_letters_may_stand_there_by_chance(before):
    """Its inner letters are four or five."""
    coded = base64.b64encode(before + b"abcd").decode()
    assert redact(coded, "abcd") == coded and "[key]" in redact(base64.b64encode(b"abcd").decode(), "abcd")


@pytest.mark.parametrize(
    "form",
    [
        KEY, KEY.upper(), quote(KEY, safe=""), quote(KEY, safe="").lower(), "".join(f"%{ord(c):02X}" for c in KEY), json.dumps(KEY)[1:-1],
        "".join(f"\\u{ord(c):04x}" for c in KEY), KEY.encode().hex(), KEY.encode("utf-16-le").decode(),
        "".join(f"&#{ord(c)};" for c in KEY),
    ],
)  # fmt: skip
def test_other_forms(form):
    assert redact(f"wrong key {form}!", KEY).replace("\0", "") == "wrong key [key]!" and reveals(form, KEY)


def test_a_short_key_stands_in_texts_by_chance():
    assert redact("EMPTY", "EMPTY") == "[key]" and not reveals("EMPTY", "EMPTY")
    assert redact("as it was", "") == "as it was" and not reveals("as it was", "")
