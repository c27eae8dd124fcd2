package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	lists "k8s.io/client-go/listers/core/v1"
	policies "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const rulesOfAll = "HEADGATE-POLICIES"

var anywhere = netip.MustParsePrefix("0.0.0.0/0")

// guard turns NetworkPolicies into rules of iptables: what a network plug-in that enforces them does on its node. Numbered
// ports and IPv4 alone. A pod whose address the API server does not tell yet is not isolated, and is nobody's peer.
type guard struct {
	pods       lists.PodLister
	namespaces lists.NamespaceLister
	policies   policies.NetworkPolicyLister
	changed    chan struct{}
}

func newPoliciesCommand() *cobra.Command {
	var kubeconfig string
	command := &cobra.Command{Use: "policies", RunE: func(c *cobra.Command, _ []string) error {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return newGuard(c.Context(), client).follow()
	}}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	return command
}

func newGuard(ctx context.Context, client kubernetes.Interface) *guard {
	watched := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := watched.Core().V1().Pods(), watched.Core().V1().Namespaces()
	rules := watched.Networking().V1().NetworkPolicies()
	g := &guard{pods.Lister(), namespaces.Lister(), rules.Lister(), make(chan struct{}, 1)}
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), rules.Informer()} {
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails for informers that have ended
			AddFunc:    func(any) { g.notice() },
			UpdateFunc: func(any, any) { g.notice() },
			DeleteFunc: func(any) { g.notice() },
		})
	}
	watched.Start(ctx.Done())
	watched.WaitForCacheSync(ctx.Done())
	return g
}

func (g *guard) notice() {
	select {
	case g.changed <- struct{}{}:
	default: // it will be looked at anyway
	}
}

func (g *guard) follow() error {
	known := ""
	for range g.changed {
		rules, err := g.rules()
		if err != nil {
			return err
		}
		if rules == known {
			continue
		}
		if err := run(rules, "iptables-restore", "--wait", "--noflush"); err != nil {
			return err
		}
		for _, chain := range []string{"FORWARD", "INPUT"} { // to pods, and to the node
			if known != "" {
				break
			}
			if err := run("", "iptables", "--wait", "--insert", chain, "--jump", rulesOfAll); err != nil {
				return err
			}
		}
		known = rules
		time.Sleep(20 * time.Millisecond) // what changes together
	}
	return nil
}

func run(input, name string, arguments ...string) error {
	command := exec.Command(name, arguments...)
	command.Stdin, command.Stderr = strings.NewReader(input), os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w of %s", name, err, input)
	}
	return nil
}

// rules are those of all pods: what is not allowed on the side of the one that calls, and on the side of the called.
func (g *guard) rules() (string, error) {
	pods, err := g.everyPod()
	if err != nil {
		return "", err
	}
	chains, jumps, rules := []string{rulesOfAll}, []string{}, []string{}
	for _, pod := range pods {
		if !hasAddress(pod) {
			continue
		}
		for _, side := range []network.PolicyType{network.PolicyTypeEgress, network.PolicyTypeIngress} {
			allowed, isolated, err := g.allowed(pod, side)
			if err != nil {
				return "", err
			}
			if !isolated {
				continue
			}
			chain := fmt.Sprintf("HEADGATE-%s-%s", side[:1], pod.Status.PodIP)
			chains = append(chains, chain)
			jumps = append(jumps, fmt.Sprintf("%s %s -j %s", flag(side, true), pod.Status.PodIP, chain))
			for _, match := range allowed {
				rules = append(rules, fmt.Sprintf("-A %s %s -j RETURN", chain, match))
			}
			rules = append(rules, fmt.Sprintf("-A %s -j REJECT", chain)) // by ICMP: a bridge would not translate a reset
		}
	}
	var text strings.Builder
	text.WriteString("*filter\n")
	for _, chain := range chains { // which empties those that are there
		fmt.Fprintf(&text, ":%s - [0:0]\n", chain)
	}
	fmt.Fprintf(&text, "-A %s -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN\n", rulesOfAll)
	for _, jump := range jumps {
		fmt.Fprintf(&text, "-A %s %s\n", rulesOfAll, jump)
	}
	text.WriteString(strings.Join(rules, "\n") + "\nCOMMIT\n")
	return text.String(), nil
}

// everyPod is in an order, so that equal rules are equal texts.
func (g *guard) everyPod() ([]*core.Pod, error) {
	pods, err := g.pods.List(labels.Everything())
	sort.Slice(pods, func(i, j int) bool { return pods[i].UID < pods[j].UID })
	return pods, err
}

func hasAddress(pod *core.Pod) bool {
	isOver := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !isOver
}

// flag is that of a pod's own address, or of those that it talks to.
func flag(side network.PolicyType, own bool) string {
	if (side == network.PolicyTypeEgress) == own {
		return "-s"
	}
	return "-d"
}

// allowed is what any policy for this side of a pod allows; without such a policy the pod is not isolated.
func (g *guard) allowed(pod *core.Pod, side network.PolicyType) (matches []string, isolated bool, err error) {
	known, err := g.policies.NetworkPolicies(pod.Namespace).List(labels.Everything())
	if err != nil {
		return nil, false, err
	}
	sort.Slice(known, func(i, j int) bool { return known[i].UID < known[j].UID })
	for _, policy := range known {
		selects, err := selected(&policy.Spec.PodSelector, pod.Labels)
		if err != nil {
			return nil, false, err
		}
		if !selects || !concerns(policy, side) {
			continue
		}
		isolated = true
		if side == network.PolicyTypeEgress {
			for _, rule := range policy.Spec.Egress {
				matches, err = g.matches(matches, policy.Namespace, side, rule.To, rule.Ports)
				if err != nil {
					return nil, false, err
				}
			}
			continue
		}
		for _, rule := range policy.Spec.Ingress {
			matches, err = g.matches(matches, policy.Namespace, side, rule.From, rule.Ports)
			if err != nil {
				return nil, false, err
			}
		}
	}
	return matches, isolated, nil
}

func concerns(policy *network.NetworkPolicy, side network.PolicyType) bool {
	for _, named := range policy.Spec.PolicyTypes {
		if named == side {
			return true
		}
	}
	return false
}

// matches are those of one rule, after others.
func (g *guard) matches(
	found []string, namespace string, side network.PolicyType, peers []network.NetworkPolicyPeer, ports []network.NetworkPolicyPort,
) ([]string, error) {
	addresses := []netip.Prefix{anywhere}
	if len(peers) > 0 {
		addresses = nil
	}
	for _, peer := range peers {
		some, err := g.addresses(namespace, peer)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, some...)
	}
	of := []string{""}
	if len(ports) > 0 {
		of = nil
	}
	for _, port := range ports {
		match, err := portMatch(port)
		if err != nil {
			return nil, err
		}
		of = append(of, match)
	}
	for _, address := range addresses {
		for _, port := range of {
			found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", flag(side, false), address, port)))
		}
	}
	return found, nil
}

func portMatch(port network.NetworkPolicyPort) (string, error) {
	protocol := "tcp"
	if port.Protocol != nil {
		protocol = strings.ToLower(string(*port.Protocol))
	}
	if port.Port == nil {
		return "-p " + protocol, nil
	}
	if port.Port.StrVal != "" {
		return "", errors.New("a port by its name: " + port.Port.StrVal)
	}
	last := port.Port.IntVal
	if port.EndPort != nil {
		last = *port.EndPort
	}
	return fmt.Sprintf("-p %s --dport %d:%d", protocol, port.Port.IntVal, last), nil
}

func (g *guard) addresses(namespace string, peer network.NetworkPolicyPeer) ([]netip.Prefix, error) {
	if peer.IPBlock != nil {
		return block(peer.IPBlock)
	}
	pods, err := g.everyPod()
	if err != nil {
		return nil, err
	}
	var found []netip.Prefix
	for _, pod := range pods {
		is, err := g.isPeer(namespace, peer, pod)
		if err != nil {
			return nil, err
		}
		if is && hasAddress(pod) {
			address, err := netip.ParseAddr(pod.Status.PodIP)
			if err != nil {
				return nil, err
			}
			found = append(found, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	return found, nil
}

func (g *guard) isPeer(namespace string, peer network.NetworkPolicyPeer, pod *core.Pod) (bool, error) {
	if peer.NamespaceSelector == nil {
		if pod.Namespace != namespace {
			return false, nil
		}
	} else {
		of, err := g.namespaces.Get(pod.Namespace)
		if err != nil {
			return false, nil // it has gone
		}
		is, err := selected(peer.NamespaceSelector, of.Labels)
		if err != nil || !is {
			return false, err
		}
	}
	if peer.PodSelector == nil {
		return true, nil
	}
	return selected(peer.PodSelector, pod.Labels)
}

func selected(selector *meta.LabelSelector, found map[string]string) (bool, error) {
	compiled, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && compiled.Matches(labels.Set(found)), err
}

// block is an address range without what is taken out of it.
func block(given *network.IPBlock) ([]netip.Prefix, error) {
	whole, err := netip.ParsePrefix(given.CIDR)
	found := []netip.Prefix{whole}
	for _, text := range given.Except {
		except, wrong := netip.ParsePrefix(text)
		err = errors.Join(err, wrong)
		var left []netip.Prefix
		for _, one := range found {
			left = append(left, without(one, except)...)
		}
		found = left
	}
	return found, err
}

func without(whole, except netip.Prefix) []netip.Prefix {
	switch {
	case !whole.Overlaps(except):
		return []netip.Prefix{whole}
	case except.Bits() <= whole.Bits():
		return nil
	}
	low := netip.PrefixFrom(whole.Addr(), whole.Bits()+1)
	bytes := whole.Addr().As4()
	bytes[whole.Bits()/8] |= 1 << (7 - whole.Bits()%8)
	high := netip.PrefixFrom(netip.AddrFrom4(bytes), whole.Bits()+1)
	return append(without(low, except), without(high, except)...)
}
