"""The log in the broker: topics, offsets, the time index, and the lag of an answer."""
