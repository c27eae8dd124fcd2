#!/bin/sh
# A PostgreSQL of one node below $PGDATA, made at the first start. POSTGRES_PASSWORD is its owner's. `postgresql.sh ready`
# asks whether it takes connections.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
if [ "${1:-}" = ready ]; then
    exec "$bin/pg_isready" --quiet --host=/tmp --username=headgate
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    secret=$(mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" >"$secret"
    "$bin/initdb" --pgdata="$PGDATA" --username=headgate --pwfile="$secret" --auth-host=scram-sha-256 --auth-local=trust \
        --encoding=UTF8 --locale=C.UTF-8
    rm "$secret"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE headgate" | "$bin/postgres" --single -D "$PGDATA" postgres >/dev/null
fi
exec "$bin/postgres" -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp
