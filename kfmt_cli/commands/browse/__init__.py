"""browse: shows a disk in the terminal."""
