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

NONCE_BYTES = 12
OAEP_HASH = "sha3_512"
DecryptFunction = Callable[[bytes, bytes], bytes]
"""Encrypted bytes and their authenticated data → the decrypted bytes."""


def read_key_file(path: str) -> bytes:
    """The bytes of a key file; raises UsageError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


class PrivateKey:
    """A private key, which unwraps data keys."""

    @classmethod
    def from_file(cls, path: str) -> PrivateKey:
        """The key in a file; raises UsageError."""
        return cls(read_key_file(path), path)

    def __init__(self, data: bytes, path: str) -> None:
        """Read PKCS #8, as PEM or DER; raises UsageError. path: the key's file."""
        try:
            from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
            from cryptography.hazmat.primitives.serialization import (
                load_der_private_key,
                load_pem_private_key,
            )
        except ImportError:
            message = "cryptography is not installed: pip install 'kfmt-cli[remote]'"
            raise UsageError(f"encrypted segments: {message}") from None
        try:
            load_key = load_pem_private_key if b"-----BEGIN" in data else load_der_private_key
            key = load_key(data, None)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: not a PKCS #8 private key: {error}") from error
        if not isinstance(key, RSAPrivateKey):
            raise UsageError(f"{path}: not an RSA key")
        private_numbers = key.private_numbers()
        self._modulus, self._exponent = private_numbers.public_numbers.n, private_numbers.d

    def unwrap_data_key(self, data_key: str) -> DecryptFunction:
        """The decryption function for a data key, which has its wrapping key's name as a prefix;
        raises InputError."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_name, _, wrapped_key = data_key.rpartition(":")
        try:
            cipher = AESGCM(self._unwrap_oaep(base64.b64decode(wrapped_key, validate=True)))
        except ValueError as error:
            raise InputError(
                f"its data key cannot be unwrapped with this key ({key_name})"
            ) from error

        def decrypt(data: bytes, associated_data: bytes) -> bytes:
            try:
                return cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], associated_data)
            except (InvalidTag, ValueError) as error:
                raise InputError("cannot be decrypted: the data fails authentication") from error

        return decrypt

    def _unwrap_oaep(self, wrapped_key: bytes) -> bytes:
        """The unwrapped bytes; raises ValueError. cryptography only has OAEP without SHA-3."""
        size = (self._modulus.bit_length() + 7) // 8
        encrypted_number = int.from_bytes(wrapped_key, "big")
        if len(wrapped_key) != size or encrypted_number >= self._modulus:
            raise ValueError("wrong size")
        block = pow(encrypted_number, self._exponent, self._modulus).to_bytes(size, "big")
        hash_size = hashlib.new(OAEP_HASH).digest_size
        seed = _xor(block[1 : 1 + hash_size], _mgf1_mask(block[1 + hash_size :], hash_size))
        data = _xor(block[1 + hash_size :], _mgf1_mask(seed, size - hash_size - 1))
        label_hash, unpadded = data[:hash_size], data[hash_size:].lstrip(b"\0")
        if block[0] or label_hash != hashlib.new(OAEP_HASH).digest() or unpadded[:1] != b"\1":
            raise ValueError("wrong key")
        return unpadded[1:]


def _mgf1_mask(seed: bytes, size: int) -> bytes:
    """The MGF1 mask of a seed (RFC 8017, B.2.1)."""
    rounds = range(-(-size // hashlib.new(OAEP_HASH).digest_size))
    parts = (hashlib.new(OAEP_HASH, seed + i.to_bytes(4, "big")).digest() for i in rounds)
    return b"".join(parts)[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(left, right, strict=True))
