package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// credentials are files below the plane's folder; they stay as they are when it starts again.
type credentials struct {
	dir, local                         string
	certificate, key, tokens, accounts string
	kubeconfig                         string
}

func prepare(dir string, o options) (credentials, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	host := o.bind
	if net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	c := credentials{
		dir: dir, local: "https://" + net.JoinHostPort(host, strconv.Itoa(o.port)),
		certificate: at("server.crt"), key: at("server.key"), tokens: at("tokens.csv"), accounts: at("accounts.key"),
		kubeconfig: at("kubeconfig"),
	}
	if _, err := os.Stat(c.kubeconfig); err == nil {
		return c, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return c, err
	}
	return c, c.write(host, o)
}

func (c credentials) write(host string, o options) error {
	addresses := []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("10.96.0.1")}
	if ip := net.ParseIP(o.advertise); ip != nil {
		addresses = append(addresses, ip)
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, addresses, names)
	if err != nil {
		return err
	}
	signing, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(signing)}
	admin, kubelet := secret(), secret()
	tokens := admin + `,admin,admin,"system:masters"` + "\n"
	if o.node != "" {
		tokens += kubelet + ",system:node:" + o.node + "," + o.node + `,"system:nodes"` + "\n"
	}
	for path, content := range map[string][]byte{
		c.certificate: certificate, c.key: key, c.accounts: pem.EncodeToMemory(block), c.tokens: []byte(tokens),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	server := o.server
	if server == "" {
		server = c.local
	}
	if o.node != "" {
		if err := writeKubeconfig(filepath.Join(c.dir, "node.kubeconfig"), server, certificate, kubelet); err != nil {
			return err
		}
	}
	return writeKubeconfig(c.kubeconfig, server, certificate, admin)
}

func secret() string {
	bytes := make([]byte, 16)
	_, _ = rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

func writeKubeconfig(path, server string, authority []byte, token string) error {
	config := clientapi.NewConfig()
	config.Clusters["test"] = &clientapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos["user"] = &clientapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientapi.Context{Cluster: "test", AuthInfo: "user"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, path)
}

// waitUntilReady returns once all health checks of the API server pass, or a part failed.
func (c credentials) waitUntilReady(ctx context.Context, failed <-chan error) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return err
	}
	config.Host, config.Timeout = c.local, 2*time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for range 2400 {
		if client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("the API server does not become ready")
}
