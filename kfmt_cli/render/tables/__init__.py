"""Tables for people: what stands in each column, and which columns fit the screen."""
