"""What people want: blueprints, pins, connections, tokens, and the controls of an operator.

Does not belong here: planning, work.
"""
