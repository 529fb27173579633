"""The private key that unwraps the data keys of encrypted segments."""

from __future__ import annotations

import base64
import hashlib
import secrets
from pathlib import Path

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from kfmt_cli.disk.tiered_keys import NONCE_BYTES, OAEP_HASH, PrivateKey, _mgf1_mask, _xor
from kfmt_cli.errors import InputError

PLAIN = bytes(range(32))


def wrap_key(
    key: RSAPrivateKey, first: int = 0, label: bytes = b"", mark: bytes = b"\1", data: bytes = PLAIN
) -> str:
    """A data key wrapped with OAEP, as by the plug-in."""
    numbers = key.public_key().public_numbers()
    size = (numbers.n.bit_length() + 7) // 8
    digest = hashlib.new(OAEP_HASH, label).digest()
    block = digest + (mark + data).rjust(size - 1 - 2 * len(digest), b"\0")
    seed = secrets.token_bytes(len(digest))
    masked = _xor(block, _mgf1_mask(seed, len(block)))
    encoded = bytes([first]) + _xor(seed, _mgf1_mask(masked, len(seed))) + masked
    ciphertext = pow(int.from_bytes(encoded, "big"), numbers.e, numbers.n)
    return f"name:{base64.b64encode(ciphertext.to_bytes(size, 'big')).decode()}"


def test_only_a_key_in_oaep_form_is_accepted(tmp_path: Path) -> None:
    key = generate_private_key(65537, 2048)
    file = tmp_path / "key.der"
    file.write_bytes(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    private_key = PrivateKey.from_file(str(file))
    nonce = bytes(NONCE_BYTES)
    data = nonce + AESGCM(PLAIN).encrypt(nonce, b"secret", b"")
    assert private_key.unwrap_data_key(wrap_key(key))(data, b"") == b"secret"
    message = r"^its data key cannot be unwrapped with this key \(name\)$"
    for changes in ({"first": 1}, {"label": b"x"}, {"mark": b"\2"}, {"data": PLAIN[:5]}):
        with pytest.raises(InputError, match=message):
            private_key.unwrap_data_key(wrap_key(key, **changes))
