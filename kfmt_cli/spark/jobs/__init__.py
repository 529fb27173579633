"""The jobs on Spark. To add one, write a file with `run_job(context)` and add a line to `JOBS`."""
