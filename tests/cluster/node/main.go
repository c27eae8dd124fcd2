// Command node is what a Kubernetes node runs beside its container runtime: kubelet, proxy (kube-proxy), dns and what enforces
// network policies, each as `node PART FLAG...`. Does not belong here: how they are set up (`tests/cluster/inside.sh`).
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kubelet":  func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"proxy":    proxy.NewProxyCommand,
		"dns":      newNamesCommand,
		"policies": newPoliciesCommand,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: node kubelet|proxy|dns|policies FLAG...")
		os.Exit(64)
	}
	part := os.Args[1]
	os.Args = append([]string{part}, os.Args[2:]...) // these commands read the process's own arguments
	os.Exit(cli.Run(commands[part]()))
}
