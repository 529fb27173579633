"""The widgets of the browser: the only modules that import Textual."""
