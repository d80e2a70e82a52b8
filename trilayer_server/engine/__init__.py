"""The engine: forked processes that answer SQL, and the pool that asks them."""
