#!/bin/sh
# Before an executor is stopped: asks its JVM to hand over what it holds, and waits until it has ended.
# Kubernetes ends the wait when the pod's grace period is over.
set -u
for process in /proc/[0-9]*; do
    if [ "$(cat "$process/comm" 2>/dev/null)" = java ]; then
        kill -s PWR "${process#/proc/}"
        while [ -d "$process" ]; do
            sleep 0.2
        done
    fi
done
