#!/bin/sh
# An S3 server over the folder $DATA with the bucket $BUCKET. ROOT_ACCESS_KEY and ROOT_SECRET_KEY open it.
set -eu
mkdir -p "$DATA/$BUCKET"
exec versitygw --quiet --port :9000 --health /health posix "$DATA"
