"""Collection of what nothing refers to, checks of what the database says, and repair."""
