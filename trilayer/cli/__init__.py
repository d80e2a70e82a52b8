"""The `trilayer` command: thin, and the only package that imports every layer."""
