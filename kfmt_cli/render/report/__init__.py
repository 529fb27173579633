"""The page of `kfmt report`: rows in, one file of HTML out."""
