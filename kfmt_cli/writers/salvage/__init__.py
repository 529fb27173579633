"""Salvages the undamaged parts of a damaged log."""
