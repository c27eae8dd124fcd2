"""The connector `python`: a user's own `list` and `read`."""
