"""The jobs on Spark. To add one, write a module with `run_job(context)`, and add an entry to
`JOB_SPECS`."""
