"""The commands' tasks, without their command line."""
