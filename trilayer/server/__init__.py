"""The server: clients of PostgreSQL ask the merged views in SQL."""
