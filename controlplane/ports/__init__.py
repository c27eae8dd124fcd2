"""What operations need from the world: the store, the lake, pools of drivers. Protocols only;
adapters implement them.

Does not belong here: records (`core.model`), anything that runs.
"""
