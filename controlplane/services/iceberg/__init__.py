"""The catalogue of Iceberg: branches are warehouses, dataflows are namespaces, datasets are tables,
generations are snapshots. Changes nothing."""
