"""What a broker reads of its cluster before it loads logs: identities and the metadata log."""
