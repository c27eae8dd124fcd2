"""What follows committed states: Delta tables, and packs of their small files.

Does not belong here: when it is done (`reconciler`).
"""
