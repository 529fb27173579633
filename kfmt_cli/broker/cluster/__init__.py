"""What a cluster does: its image in the metadata log, elections, replicas, sessions."""
