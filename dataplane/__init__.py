"""The data plane: processes that list sources, run Spark and write files; they pull work over
HTTP."""
