"""Files: tables of `formats` and how they follow one another."""
