"""The tables of a lake: their commits, formats and leases."""
