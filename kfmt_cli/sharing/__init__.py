"""Sharing work over processes and hosts: how files are cut, and how the parts are put together."""
