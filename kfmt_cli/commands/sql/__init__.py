"""sql: questions in SQL, as an argument, from a file or at a prompt."""
