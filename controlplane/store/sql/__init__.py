"""The store on a database that SQLAlchemy speaks to: a module for each group of tables.

Does not belong here: decisions, migrations.
"""
