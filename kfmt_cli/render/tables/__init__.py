"""Tables for people: the content of each column, and the choice of columns that fit the screen."""
