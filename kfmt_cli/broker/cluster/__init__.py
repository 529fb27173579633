"""A cluster as a whole: its image in the metadata log, elections, replicas, sessions."""
