// Command plane is the control plane of a throw-away Kubernetes in one process: etcd, API server, controllers, scheduler.
//
// It keeps everything below one folder, prints "ready URL" once it answers, and ends with SIGTERM, SIGINT, or its standard
// input. Started again in the same folder, on the same port, it goes on with what is there. Does not belong here: nodes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	logs "k8s.io/component-base/logs/api/v1"
)

type options struct {
	dir, bind, advertise, server, node, controllers, apiFlags string
	port                                                      int
}

func main() {
	logs.ReapplyHandling = logs.ReapplyHandlingIgnoreUnchanged // each part sets up logging, in one process
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	o := parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "plane:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.dir, "dir", "", "where everything is kept; its path must be short, sockets lie in it")
	flag.StringVar(&o.bind, "bind", "127.0.0.1", "address that the API server listens at")
	flag.IntVar(&o.port, "port", 0, "port of the API server (0: a free one)")
	flag.StringVar(&o.advertise, "advertise", "", "address in the endpoints of the service `kubernetes` (none: no endpoints)")
	flag.StringVar(&o.server, "server", "", "URL in kubeconfig files (none: where it listens)")
	flag.StringVar(&o.node, "node", "", "name of a node: writes DIR/node.kubeconfig for its kubelet")
	flag.StringVar(&o.controllers, "controllers", "*", "controllers to run, as in kube-controller-manager")
	flag.StringVar(&o.apiFlags, "apiserver-flags", "", "more flags of kube-apiserver, separated by blanks")
	hold := flag.Bool("hold", false, "end with the standard input")
	flag.Parse()
	if *hold {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
	}
	return o
}

func run(ctx context.Context, o options) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	if o.port == 0 {
		if o.port, err = freePort(o.bind); err != nil {
			return err
		}
	}
	c, err := prepare(dir, o)
	if err != nil {
		return err
	}
	etcd, err := startEtcd(dir)
	if err != nil {
		return err
	}
	defer etcd.Close()
	failed := make(chan error, 3)
	runControllers := runServer(ctx, apiFlags(c, o), controllerFlags(c, o), failed)
	if err := c.waitUntilReady(ctx, failed); err != nil {
		return err
	}
	runControllers()
	runScheduler(ctx, []string{"--kubeconfig=" + c.kubeconfig, "--leader-elect=false", "--secure-port=0"}, failed)
	fmt.Println("ready", c.local)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func apiFlags(c credentials, o options) []string {
	advertised := o.advertise
	if advertised == "" {
		advertised = "192.0.2.1" // must not be a loopback address; nobody uses it without an endpoint reconciler
	}
	flags := []string{
		"--etcd-servers=" + etcdURL(c.dir),
		"--bind-address=" + o.bind, "--secure-port=" + strconv.Itoa(o.port), "--advertise-address=" + advertised,
		"--tls-cert-file=" + c.certificate, "--tls-private-key-file=" + c.key, "--token-auth-file=" + c.tokens,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.accounts,
		"--service-account-signing-key-file=" + c.accounts, "--service-cluster-ip-range=10.96.0.0/16", "--profiling=false",
	}
	if o.advertise == "" {
		flags = append(flags, "--endpoint-reconciler-type=none")
	}
	return append(flags, strings.Fields(o.apiFlags)...)
}

func controllerFlags(c credentials, o options) []string {
	return []string{
		"--kubeconfig=" + c.kubeconfig, "--leader-elect=false", "--secure-port=0", "--profiling=false",
		"--controllers=" + o.controllers, "--service-account-private-key-file=" + c.accounts,
		"--root-ca-file=" + c.certificate, "--kube-api-qps=200", "--kube-api-burst=400",
	}
}

func freePort(host string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
