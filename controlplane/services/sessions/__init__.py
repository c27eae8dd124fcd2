"""Spark Connect sessions of users, on a process beside the service or on a pod."""
