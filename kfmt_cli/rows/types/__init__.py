"""The types of rows and objects, by subject."""
