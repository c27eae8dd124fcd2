"""What both planes must agree on byte for byte: canonical encoding, identities, wire records,
failpoints.

Standard library only.
"""
