"""SQL over committed files by Spark, in a process that serves queries and nothing else.

Does not belong here: which files a table has, who may read them, where results are kept (control plane); what a query
may say (`spark.plan_guard`).
"""
