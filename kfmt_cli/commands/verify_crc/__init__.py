"""verify-crc: checks the structure and checksum of every batch."""
