"""The catalogue of Iceberg over HTTP, by the protocol of Iceberg REST catalogues."""
