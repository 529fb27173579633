"""request-header and response-header: decode the headers of requests and responses."""
