"""The functions of `import kfmt_cli`."""
