"""One folder for each connector, with `list`, `read`, `write` and `check` as far as it has them; `registry` names them.

Does not belong here: what connectors share (`fragments`, `listing`, `storage`).
"""
