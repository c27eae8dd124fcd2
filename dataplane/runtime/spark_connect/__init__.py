"""A Spark Connect server for one user, with committed datasets as its views."""
