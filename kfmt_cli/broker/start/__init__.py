"""What a broker does with a directory when it starts: what it truncates, deletes and fails on."""
