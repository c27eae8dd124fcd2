"""What lies at a location of files: found by glob, told apart by version, grouped into partitions. No JVM."""
