"""The data keys of encrypted segments in tiered storage.

Source: `io.aiven.kafka.tieredstorage.security`: a data key is wrapped with RSA and OAEP, with
SHA3-512 for hash and mask. Data is encrypted with AES-256-GCM, after a nonce of 12 bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

from kfmt_cli.errors import InputError, UsageError

NONCE = 12
HASH = "sha3_512"
Unlock = Callable[[bytes, bytes], bytes]
"""Encrypted bytes and their authenticated data → the decrypted bytes."""


def key_bytes(path: str) -> bytes:
    """The bytes of a key file; raises UsageError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


class PrivateKey:
    """A private key, which unwraps data keys."""

    @classmethod
    def at(cls, path: str) -> PrivateKey:
        """The key in a file; raises UsageError."""
        return cls(key_bytes(path), path)

    def __init__(self, data: bytes, path: str) -> None:
        """Read PKCS #8, as PEM or DER; raises UsageError. path: the key's file."""
        try:
            from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
            from cryptography.hazmat.primitives.serialization import (
                load_der_private_key,
                load_pem_private_key,
            )
        except ImportError:
            words = "cryptography is not installed: pip install 'kfmt-cli[remote]'"
            raise UsageError(f"encrypted segments: {words}") from None
        try:
            load = load_pem_private_key if b"-----BEGIN" in data else load_der_private_key
            key = load(data, None)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: not a PKCS #8 private key: {error}") from error
        if not isinstance(key, RSAPrivateKey):
            raise UsageError(f"{path}: not an RSA key")
        numbers = key.private_numbers()
        self._modulus, self._exponent = numbers.public_numbers.n, numbers.d

    def unwrapped(self, data_key: str) -> Unlock:
        """The decryption function for a data key, which has its wrapping key's name as a prefix;
        raises InputError."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        name, _, wrapped = data_key.rpartition(":")
        try:
            cipher = AESGCM(self._plain(base64.b64decode(wrapped, validate=True)))
        except ValueError as error:
            raise InputError(f"its data key cannot be unwrapped with this key ({name})") from error

        def unlock(data: bytes, authenticated: bytes) -> bytes:
            try:
                return cipher.decrypt(data[:NONCE], data[NONCE:], authenticated)
            except (InvalidTag, ValueError) as error:
                raise InputError("cannot be decrypted: the data fails authentication") from error

        return unlock

    def _plain(self, wrapped: bytes) -> bytes:
        """The unwrapped bytes; raises ValueError. cryptography only has OAEP without SHA-3."""
        size = (self._modulus.bit_length() + 7) // 8
        number = int.from_bytes(wrapped, "big")
        if len(wrapped) != size or number >= self._modulus:
            raise ValueError("wrong size")
        block = pow(number, self._exponent, self._modulus).to_bytes(size, "big")
        n = hashlib.new(HASH).digest_size
        seed = _xor(block[1 : 1 + n], _mask(block[1 + n :], n))
        data = _xor(block[1 + n :], _mask(seed, size - n - 1))
        label, rest = data[:n], data[n:].lstrip(b"\0")
        if block[0] or label != hashlib.new(HASH).digest() or rest[:1] != b"\1":
            raise ValueError("wrong key")
        return rest[1:]


def _mask(seed: bytes, size: int) -> bytes:
    """The MGF1 mask."""
    rounds = range(-(-size // hashlib.new(HASH).digest_size))
    parts = (hashlib.new(HASH, seed + i.to_bytes(4, "big")).digest() for i in rounds)
    return b"".join(parts)[:size]


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))
