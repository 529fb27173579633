"""A broker's disk: names, directories, partitions, segments, kinds of files."""
