// A throw-away SFTP server on a loopback port: one user with a password or a key, one folder.
// Its port, the fingerprint of its key and nothing else go to standard output.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Arguments: the user, the password, a file of public keys.
func main() {
	user, password := os.Args[1], os.Args[2]
	text, err := os.ReadFile(os.Args[3])
	must(err)
	known, _, _, _, err := ssh.ParseAuthorizedKey(text)
	must(err)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	signer, err := ssh.NewSignerFromKey(private)
	must(err)
	config := &ssh.ServerConfig{
		PasswordCallback: func(c ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
			if c.User() == user && string(given) == password {
				return nil, nil
			}
			return nil, fmt.Errorf("refused")
		},
		PublicKeyCallback: func(c ssh.ConnMetadata, given ssh.PublicKey) (*ssh.Permissions, error) {
			if c.User() == user && string(given.Marshal()) == string(known.Marshal()) {
				return nil, nil
			}
			return nil, fmt.Errorf("refused")
		},
	}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	fmt.Println(ssh.FingerprintSHA256(signer.PublicKey()))
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go serve(connection, config)
	}
}

func serve(connection net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for asked := range channels {
		channel, own, err := asked.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range own {
				request.Reply(request.Type == "subsystem", nil)
			}
		}()
		server, err := sftp.NewServer(channel)
		if err != nil {
			return
		}
		if err := server.Serve(); err != nil && err != io.EOF {
			fmt.Fprintln(os.Stderr, err)
		}
		channel.Close()
	}
}
