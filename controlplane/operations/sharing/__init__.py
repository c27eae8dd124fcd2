"""What recipients of Delta Sharing find: shared datasets, their versions, and the files of these. Changes nothing.

Does not belong here: the protocol (`core.sharing`, `api.sharing`), and who may read what (`operations.desired`).
"""
