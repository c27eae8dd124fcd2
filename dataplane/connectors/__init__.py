"""One folder for each connector, with those of `list`, `read`, `write` and `check` that it has.

`registry` names the connectors.
"""
