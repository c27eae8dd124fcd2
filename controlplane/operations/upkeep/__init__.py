"""Collection of what nothing refers to, checks of what the database says, and repair.

Does not belong here: how long anything is kept (`core`).
"""
