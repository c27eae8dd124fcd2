#!/bin/sh
# What a container of the data plane runs. Spark starts executors with the one argument `executor` and tells the rest by
# SPARK_* variables; anything else is a command of its own, such as `python3 -m dataplane driver`.
set -eu
if [ "${1:-}" != executor ]; then
    exec "$@"
fi
cd "$(mktemp -d)" # where it may write: here lies what Spark sends to executors, such as packages that a transform requires
set --
i=0
while eval "option=\${SPARK_JAVA_OPT_$i-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    i=$((i + 1))
done
exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}$SPARK_HOME/jars/*:/opt/headgate/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
