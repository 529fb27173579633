"""A structure, described once: wire types, fields, layouts, messages with versions, trees."""
