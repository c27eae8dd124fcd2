"""The records that planning, storage and the API exchange.

Does not belong here: how they are stored, or how they are decided.
"""
