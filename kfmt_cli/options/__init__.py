"""The options of commands, each declared once, and those that commands share."""
