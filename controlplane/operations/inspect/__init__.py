"""Read models: what users are shown, as JSON. Nothing here changes anything."""
