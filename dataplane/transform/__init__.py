"""Running users' SQL and Python over fragments."""
