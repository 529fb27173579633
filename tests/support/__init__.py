"""Shared code of the tests: samples, damaged copies of them, cases, and the runner."""
