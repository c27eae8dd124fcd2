"""The server of Delta Sharing: shared datasets for clients of that protocol, with tokens of recipients.

Does not belong here: what is shared with whom (`operations.desired`), and finding it (`operations.sharing`).
"""
