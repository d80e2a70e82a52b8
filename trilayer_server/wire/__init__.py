"""PostgreSQL's protocol: who may connect, messages, and what a client asks in its session."""
