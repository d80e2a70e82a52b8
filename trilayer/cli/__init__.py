"""The `trilayer` command. It is thin, and the only package that imports every layer."""
