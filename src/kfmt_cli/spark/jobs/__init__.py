"""The jobs of `kfmt pipeline`: a module each, with `run_job(context)`, which gives a `Summary`."""
