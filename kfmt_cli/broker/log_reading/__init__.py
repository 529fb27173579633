"""Reading logs as a broker and its consumers do: batches, offsets, timestamps, keys."""
