"""browse: a disk in a terminal.

Modules that do not depend on a screen compute its content: the index of a log's batches
(`block_index.py`), the content of a batch (`selected_batch.py`), a search (`log_search.py`), the
place of a target (`navigation.py`), the equivalent command line (`command_line.py`). The widgets
are in `screen/`; only they, and `headless.py`, which runs them without a terminal, import Textual.
"""
