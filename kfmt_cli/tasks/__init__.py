"""What commands do, apart from how they are asked: no command line, no terminal."""
