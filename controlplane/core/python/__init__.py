"""Python transforms as text: their identity, and what makes their results volatile.

Does not belong here: running them.
"""
