"""What keeps the code as it is meant to be; it is not installed."""
