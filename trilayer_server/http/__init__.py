"""HTTP: queries and their cancellation, changes as they happen, status, and operations."""
