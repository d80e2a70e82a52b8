"""What the three layers stand on and share.

It imports none of them; `make lint` holds the walls between its rooms.
"""
