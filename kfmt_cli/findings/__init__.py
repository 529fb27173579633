"""What can be found wrong: every code, with what it means and what a broker makes of it."""
