"""What is shown: row types, made out of the Layouts once and for all outputs."""
