"""The log as the broker has it: topics, offsets, the time index, and how far an answer is behind."""
