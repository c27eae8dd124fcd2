"""Read models: the answers to users, as JSON. Nothing here changes anything."""
