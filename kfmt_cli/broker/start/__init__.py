"""What a broker makes of a directory when it starts: what it cuts, deletes, and trips over."""
