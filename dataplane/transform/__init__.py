"""Running users' SQL and Python over fragments.

Does not belong here: deciding which partitions a query may be run on by itself (the control plane's).
"""
