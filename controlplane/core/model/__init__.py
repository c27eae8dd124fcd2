"""The records that planning, storage and the API exchange."""
