"""The cluster information that a broker reads before it loads logs: identities and the metadata
log."""
