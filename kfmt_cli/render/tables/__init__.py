"""Tables for people: what each column holds, and which columns fit the screen."""
