"""A structure, described once: wire types, fields, layouts, versioned messages, trees."""
