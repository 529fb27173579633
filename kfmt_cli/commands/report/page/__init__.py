"""The page of `kfmt report`: rows in, one HTML file out."""
