"""From the texts of blueprints to nodes that can be planned: names, modes, identity.

Does not belong here: reading the texts (`blueprint`, `sql`, `python`).
"""
