package main

import (
	"context"
	"net"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/dns/dnsmessage"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	core "k8s.io/client-go/listers/core/v1"
	slices "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const domain = ".svc.cluster.local."

// names answers for the services of one cluster; whatever else is asked for does not exist.
type names struct {
	services core.ServiceLister
	slices   slices.EndpointSliceLister
}

func newNamesCommand() *cobra.Command {
	var kubeconfig, address string
	command := &cobra.Command{Use: "dns", RunE: func(c *cobra.Command, _ []string) error {
		known, err := follow(c.Context(), kubeconfig)
		if err != nil {
			return err
		}
		socket, err := net.ListenPacket("udp", address)
		if err != nil {
			return err
		}
		return known.serve(socket)
	}}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	command.Flags().StringVar(&address, "listen", "127.0.0.1:53", "address of the UDP socket")
	return command
}

func follow(ctx context.Context, kubeconfig string) (*names, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	watched := informers.NewSharedInformerFactory(client, 0)
	known := &names{watched.Core().V1().Services().Lister(), watched.Discovery().V1().EndpointSlices().Lister()}
	watched.Start(ctx.Done())
	return known, nil
}

func (n *names) serve(socket net.PacketConn) error {
	packet := make([]byte, 1500)
	for {
		size, from, err := socket.ReadFrom(packet)
		if err != nil {
			return err
		}
		if answer := n.answer(packet[:size]); answer != nil {
			_, _ = socket.WriteTo(answer, from) // who asked will ask again
		}
	}
}

// answer is nil for what is no question that we understand.
func (n *names) answer(packet []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Authoritative, m.RecursionAvailable, m.Additionals = true, true, true, nil
	question := m.Questions[0]
	addresses, exists := n.find(strings.ToLower(question.Name.String()))
	if !exists {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, address := range addresses {
		if v4 := net.ParseIP(address).To4(); v4 != nil && question.Type == dnsmessage.TypeA {
			header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 1}
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: [4]byte(v4)}})
		}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// find knows SERVICE.NAMESPACE, and HOST.SERVICE.NAMESPACE of a headless service.
func (n *names) find(name string) (addresses []string, exists bool) {
	short, ours := strings.CutSuffix(name, domain)
	parts := strings.Split(short, ".")
	if !ours || len(parts) < 2 || len(parts) > 3 {
		return nil, false
	}
	host := strings.Join(parts[:len(parts)-2], ".")
	service, namespace := parts[len(parts)-2], parts[len(parts)-1]
	found, err := n.services.Services(namespace).Get(service)
	if err != nil {
		return nil, false
	}
	if found.Spec.ClusterIP != "None" {
		return found.Spec.ClusterIPs, host == ""
	}
	return n.members(namespace, service, host, found.Spec.PublishNotReadyAddresses), true
}

func (n *names) members(namespace, service, host string, withUnready bool) (addresses []string) {
	of := labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: service})
	found, _ := n.slices.EndpointSlices(namespace).List(of) // a list out of memory does not fail
	for _, slice := range found {
		for _, e := range slice.Endpoints {
			isReady := withUnready || e.Conditions.Ready == nil || *e.Conditions.Ready
			if isReady && (host == "" || e.Hostname != nil && *e.Hostname == host) {
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	return addresses
}
