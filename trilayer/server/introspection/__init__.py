"""The catalog of PostgreSQL, filled from the catalog of views."""
