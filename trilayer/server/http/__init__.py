"""HTTP: SQL, subscriptions, status, metrics and the console."""
