"""browse: a disk in a terminal.

Modules that do not depend on a screen compute what it shows: where the batches of a log are
(`batch_positions.py`), the content of a batch (`batch_content.py`), a search (`log_search.py`), the
equivalent command line (`command_line.py`). The widgets are in `screen/`; only they import Textual.
"""
