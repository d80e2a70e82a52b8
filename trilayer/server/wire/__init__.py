"""PostgreSQL's protocol: messages, values, and the session of a client."""
