"""From a snapshot of the database to a plan, and from the plan to a transaction."""
