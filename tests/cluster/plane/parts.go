package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduling "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

func etcdURL(dir string) string { return "unix://" + filepath.Join(dir, "etcd.sock") }

// startEtcd runs one member, on a socket, without fsync: nobody needs the data after a power cut.
func startEtcd(dir string) (*embed.Etcd, error) {
	if err := os.RemoveAll(filepath.Join(dir, "etcd.sock")); err != nil {
		return nil, err
	}
	client, err := url.Parse(etcdURL(dir))
	if err != nil {
		return nil, err
	}
	nowhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir, config.UnsafeNoFsync, config.LogLevel = filepath.Join(dir, "etcd"), true, "error"
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}} // must look like an address
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{nowhere}, []url.URL{nowhere}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case err := <-server.Err():
		return nil, err
	}
}

// runServer starts the API server, and gives what starts the controllers once it is ready: they wait for it for ten seconds
// only. Both commands are made before one runs, the controllers' first: it changes a default that is fixed once another
// command has it.
func runServer(ctx context.Context, api, controller []string, failed chan<- error) (runControllers func()) {
	manager, server := controllers.NewControllerManagerCommand(), apiserver.NewAPIServerCommand()
	start := func(name string, command *cobra.Command, flags []string) {
		command.SetArgs(flags)
		command.SilenceUsage = true
		go report(ctx, name, failed, func() error { return command.ExecuteContext(ctx) })
	}
	start("API server", server, api)
	return func() { start("controllers", manager, controller) }
}

// runScheduler does what its command does, less the signal handler: a process may have one, and the API server brings it.
func runScheduler(ctx context.Context, flags []string, failed chan<- error) {
	go report(ctx, "scheduler", failed, func() error {
		options, set := scheduling.NewOptions(), pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
		for _, part := range options.Flags.FlagSets {
			set.AddFlagSet(part)
		}
		if err := set.Parse(flags); err != nil {
			return err
		}
		config, instance, err := scheduler.Setup(ctx, options)
		if err != nil {
			return err
		}
		return scheduler.Run(ctx, config, instance)
	})
}

func report(ctx context.Context, name string, failed chan<- error, run func() error) {
	if err := run(); ctx.Err() == nil {
		failed <- fmt.Errorf("%s ended: %v", name, err)
	}
}
