"""When an endpoint is not trusted, and what is tried again."""
