"""browse: a disk in a terminal.

What is on the screen is worked out by modules that know no screen: where the batches of a log are
(`outline.py`), what is shown of one (`batch_content.py`), what is looked for (`hunting.py`), which
command line gives the same (`command_line.py`). The widgets are in `screen/`; only they import
Textual.
"""
