"""Reading sources with Spark, one module per connector or concern.

Does not belong here: listing (the worker's), transforms.
"""
