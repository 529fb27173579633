"""Writes records into batches, batches into segments and their indexes."""
