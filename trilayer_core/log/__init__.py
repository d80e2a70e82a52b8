"""The log as the broker has it: topics, offsets, the time index, and an answer's lag."""
