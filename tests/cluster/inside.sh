#!/usr/bin/env bash
# A node and its control plane, in namespaces that `whole.py` made around this script; then a command, which sees KUBECONFIG.
#
#   inside.sh DIR PLANE NODE RUNTIME STORE COMMAND...
#
# DIR: a folder with a short path, and in images/ archives to import; PLANE, NODE: folders of our own binaries; RUNTIME: a
# folder with containerd and what it needs; STORE: a store of images to start from.
# Nothing listens outside of these namespaces, and all ends with the first process in them.
set -euo pipefail
dir=$1 plane=$2 node=$3 runtime=$4 store=$5
shift 5
began=$(date +%s%N)
lap() { printf '%5d ms  %s\n' "$((($(date +%s%N) - began) / 1000000))" "$*" >&2; }

node_address=172.30.0.1 service_address=10.96.0.1 dns_address=10.96.0.10
log=$dir/log
mkdir -p "$log" "$dir"/{bin,cni,kubelet,podlogs,netns}

network() {
    hostname node1
    ip link set lo up
    ip link add node0 type bridge
    for address in $node_address/24 $service_address/32 $dns_address/32; do ip addr add $address dev node0; done
    ip link set node0 up
    ip route add default dev node0
    echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables # a pod reaches a service on its own bridge
}

# A new /sys shows this network; the machine's control groups stay where they are. Folders with fixed names, which kubelet
# and runtime would share with the machine, become folders of ours.
mounts() {
    mkdir "$dir/cgroup"
    mount --rbind /sys/fs/cgroup "$dir/cgroup"
    mount -t sysfs sysfs /sys
    mount --rbind "$dir/cgroup" /sys/fs/cgroup
    mkdir -p /var/lib/kubelet /var/log/pods /var/log/containers /var/lib/cni /run/netns
    mount --bind "$dir/kubelet" /var/lib/kubelet
    mount --bind "$dir/podlogs" /var/log/pods
    mount --bind "$dir/netns" /run/netns
    mount --make-rshared /var/lib/kubelet
    mount -t tmpfs tmpfs /var/log/containers
    mount -t tmpfs tmpfs /var/lib/cni
}

cgroups() {
    cgroup=/headgate-$(basename "$dir")
    for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
        if [ -e "$hierarchy/cgroup.procs" ]; then mkdir -p "$hierarchy$cgroup"; fi
    done
    if [ -e /sys/fs/cgroup/cpuset/cpuset.cpus ]; then # version 1: a new cpuset is empty
        for name in cpus mems; do
            cat "/sys/fs/cgroup/cpuset/cpuset.$name" >"/sys/fs/cgroup/cpuset$cgroup/cpuset.$name"
        done
    fi
}

# The runtime was unpacked and not installed: commands that find its libraries, and the names that Debian gives by links.
commands() {
    libraries=$(echo "$runtime"/usr/lib/*-linux-gnu)
    export XTABLES_LIBDIR=$libraries/xtables
    for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
        printf '#!/bin/sh\nexec env LD_LIBRARY_PATH=%s %s %s "$@"\n' "$libraries" "$runtime/usr/sbin/xtables-nft-multi" $name \
            >"$dir/bin/$name"
        chmod +x "$dir/bin/$name"
    done
    export PATH=$dir/bin:$plane:$node:$PATH:$runtime/usr/bin:$runtime/usr/sbin:/usr/sbin:/sbin
}

start_containerd() {
    cp -al "$store" "$dir/containerd" 2>/dev/null || { rm -rf "$dir/containerd" && cp -a "$store" "$dir/containerd"; }
    find "$dir/containerd" -name '*.db' | while read -r file; do # what is written in place gets bytes of its own
        cp "$file" "$file.own" && mv "$file.own" "$file"
    done
    cat >"$dir/containerd.toml" <<END
version = 2
root = "$dir/containerd"
state = "$dir/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing"]
[grpc]
address = "$dir/containerd.sock"
[ttrpc]
address = "$dir/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/headgate/pause:0.1.0"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$runtime/usr/lib/cni"
conf_dir = "$dir/cni"
END
    cat >"$dir/cni/pods.conflist" <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "dataDir": "$dir/ipam", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
    LD_LIBRARY_PATH=$libraries containerd -c "$dir/containerd.toml" >"$log/containerd.log" 2>&1 &
    ctr=(ctr -a "$dir/containerd.sock" -n k8s.io)
    until "${ctr[@]}" version >/dev/null 2>&1; do alive $! containerd && sleep 0.05; done
    for archive in "$dir"/images/*.tar; do
        if [ -e "$archive" ]; then "${ctr[@]}" images import "$archive" >>"$log/images.log" 2>&1; fi
    done
    lap "containerd has the images"
}

start_plane() {
    headgate-test-plane -dir "$dir/plane" -bind 0.0.0.0 -port 443 -advertise $node_address -server https://$node_address \
        -node node1 -apiserver-flags --kubelet-preferred-address-types=InternalIP >"$log/plane.out" 2>"$log/plane.log" &
    plane_process=$!
    export KUBECONFIG=$dir/plane/kubeconfig
}

start_node() {
    until grep -q ^ready "$log/plane.out"; do alive $plane_process plane && sleep 0.05; done
    lap "the API server answers"
    cat >"$dir/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$dir/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $cgroup
failCgroupV1: false
failSwapOn: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
readOnlyPort: 0
healthzPort: 0
resolvConf: ""
clusterDNS: [$dns_address]
clusterDomain: cluster.local
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
nodeStatusUpdateFrequency: 4s
syncFrequency: 5s
volumePluginDir: $dir/volume-plugins
maxPods: 60
END
    node kubelet --config "$dir/kubelet.yaml" --kubeconfig "$dir/plane/node.kubeconfig" --root-dir /var/lib/kubelet \
        --cert-dir "$dir/kubelet-keys" --hostname-override node1 --node-ip $node_address >"$log/kubelet.log" 2>&1 &
    kubelet_process=$!
    node dns --kubeconfig "$KUBECONFIG" --listen $dns_address:53 >"$log/dns.log" 2>&1 &
    node proxy --kubeconfig "$KUBECONFIG" --hostname-override node1 --cluster-cidr 10.244.0.0/16 --proxy-mode iptables \
        --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0 \
        --healthz-bind-address 127.0.0.1:10256 --metrics-bind-address 127.0.0.1:10249 >"$log/proxy.log" 2>&1 &
    node policies --kubeconfig "$KUBECONFIG" >"$log/policies.log" 2>&1 &
    is_ready='{.status.conditions[?(@.type=="Ready")].status}{.spec.taints}'
    until [ "$(kubectl get node node1 -o "jsonpath=$is_ready" 2>/dev/null)" = True ]; do
        alive $kubelet_process kubelet && sleep 0.1
    done
    lap "the node is ready"
}

alive() {
    kill -0 "$1" 2>/dev/null && return
    echo "$2 has ended:" >&2
    tail -n 20 "$log/$2.log" >&2
    exit 1
}

network
mounts
cgroups
commands
start_plane
start_containerd
start_node
export TEST_CLUSTER_HOME=$dir
status=0
"$@" || status=$?
kubectl delete pods --all -A --grace-period=0 --force --wait=false >/dev/null 2>&1 || true # so that control groups empty
exit $status
