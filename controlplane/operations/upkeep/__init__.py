"""Collection of unreferenced data, checks of the database, and repair."""
