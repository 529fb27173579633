"""The data keys of encrypted segments in tiered storage.

Source: `io.aiven.kafka.tieredstorage.security`: a data key is wrapped with RSA and OAEP, with
SHA3-512 for hash and mask. Data is encrypted with AES-256-GCM, after a nonce of 12 bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from kfmt_cli.disk.file_access import read_whole_file
from kfmt_cli.errors import InputError, UsageError

NONCE_BYTES = 12
MAX_KEY_BYTES = 1 << 20
OAEP_HASH = "sha3_512"
DecryptFunction = Callable[[bytes, bytes], bytes]
"""Encrypted bytes and their authenticated data → the decrypted bytes."""


def read_key_file(path: str) -> bytes:
    """The bytes of a key file; raises UsageError."""
    try:
        return read_whole_file(path, MAX_KEY_BYTES)
    except InputError as error:
        raise UsageError(str(error)) from error


class PrivateKey:
    """A private key, which unwraps data keys."""

    @classmethod
    def from_file(cls, path: str) -> PrivateKey:
        """The key in a file; raises UsageError."""
        return cls(read_key_file(path), path)

    def __init__(self, key_bytes: bytes, path: str) -> None:
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
            load_key = load_pem_private_key if b"-----BEGIN" in key_bytes else load_der_private_key
            private_key = load_key(key_bytes, None)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: not a PKCS #8 private key: {error}") from error
        if not isinstance(private_key, RSAPrivateKey):
            raise UsageError(f"{path}: not an RSA key")
        private_numbers = private_key.private_numbers()
        self._modulus, self._exponent = private_numbers.public_numbers.n, private_numbers.d

    def unwrap_data_key(self, named_data_key: str) -> DecryptFunction:
        """The decryption function for a data key, which has its wrapping key's name as a prefix;
        raises InputError."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key_name, _, wrapped_key = named_data_key.rpartition(":")
        try:
            cipher = AESGCM(self._unwrap_oaep(base64.b64decode(wrapped_key, validate=True)))
        except ValueError as error:
            raise InputError(
                f"its data key cannot be unwrapped with this key ({key_name})"
            ) from error

        def decrypt(nonce_and_ciphertext: bytes, associated_data: bytes) -> bytes:
            try:
                return cipher.decrypt(
                    nonce_and_ciphertext[:NONCE_BYTES],
                    nonce_and_ciphertext[NONCE_BYTES:],
                    associated_data,
                )
            except (InvalidTag, ValueError) as error:
                raise InputError("cannot be decrypted: the data fails authentication") from error

        return decrypt

    def _unwrap_oaep(self, wrapped_key: bytes) -> bytes:
        """The unwrapped bytes; raises ValueError. cryptography only has OAEP without SHA-3."""
        modulus_bytes = (self._modulus.bit_length() + 7) // 8
        encrypted_number = int.from_bytes(wrapped_key, "big")
        if len(wrapped_key) != modulus_bytes or encrypted_number >= self._modulus:
            raise ValueError("wrong size")
        encoded_message = pow(encrypted_number, self._exponent, self._modulus).to_bytes(
            modulus_bytes, "big"
        )
        hash_bytes = hashlib.new(OAEP_HASH).digest_size
        seed = _xor(
            encoded_message[1 : 1 + hash_bytes],
            _mgf1_mask(encoded_message[1 + hash_bytes :], hash_bytes),
        )
        data_block = _xor(
            encoded_message[1 + hash_bytes :], _mgf1_mask(seed, modulus_bytes - hash_bytes - 1)
        )
        label_hash, separator_and_key = (
            data_block[:hash_bytes],
            data_block[hash_bytes:].lstrip(b"\0"),
        )
        if (
            encoded_message[0]
            or label_hash != hashlib.new(OAEP_HASH).digest()
            or separator_and_key[:1] != b"\1"
        ):
            raise ValueError("wrong key")
        return separator_and_key[1:]


def _mgf1_mask(seed: bytes, mask_bytes: int) -> bytes:
    """The MGF1 mask of a seed (RFC 8017, B.2.1)."""
    rounds = range(-(-mask_bytes // hashlib.new(OAEP_HASH).digest_size))
    digests = (hashlib.new(OAEP_HASH, seed + i.to_bytes(4, "big")).digest() for i in rounds)
    return b"".join(digests)[:mask_bytes]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(left, right, strict=True))
