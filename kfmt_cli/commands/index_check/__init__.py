"""index-check: checks indexes against their logs."""
