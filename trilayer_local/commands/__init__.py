"""The commands of the local stack."""
