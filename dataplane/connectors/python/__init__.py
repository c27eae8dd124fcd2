"""The connector `python`: a user's own `list` and `read`.

Does not belong here: transforms in Python (`transform`).
"""
