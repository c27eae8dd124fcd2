"""One folder for each connector, with its `NAME_listing`, `NAME_reader`, `NAME_writer` and `check`.

`registry` names the connectors.
"""
