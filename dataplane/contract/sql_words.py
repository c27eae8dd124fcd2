"""Names that both planes look for in users' SQL."""

from __future__ import annotations

# Names that both planes look for in users' SQL, in lower case. What reads files, calls classes or
# tells of the machine:
SQL_FORBIDDEN = frozenset(
    {"java_method", "reflect", "try_reflect", "input_file_name", "input_file_block_start"}
) | {
    *(
        "input_file_block_length",
        "python_worker_logs",
        "read_files",
        "read_kafka",
        "read_state",
        "read_statestore",
    ),
}
# What may read a file, by an option or a text among its arguments after the first.
SQL_DESCRIBED = frozenset({"from_protobuf", "to_protobuf"})
SQL_CONFIGURED = SQL_DESCRIBED | {
    "from_avro",
    "to_avro",
    "schema_of_avro",
    "from_xml",
    "to_xml",
    "schema_of_xml",
}
SQL_PATH_OPTIONS = frozenset({"avroschemaurl", "rowvalidationxsdpath"})
# In the JSON of a schema: an expression that Spark runs where a field is missing
SQL_DEFAULT = "exists_default"
# What may stand in FROM with parentheses: it reads nothing but its arguments.
SQL_TABLE_FUNCTIONS = frozenset(
    {"collations", "explode", "explode_outer", "inline", "inline_outer", "json_tuple"}
) | {
    *(
        "posexplode",
        "posexplode_outer",
        "range",
        "sql_keywords",
        "stack",
        "variant_explode",
        "variant_explode_outer",
    ),
}
