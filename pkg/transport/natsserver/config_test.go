package natsserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
)

var clusterHosts = []string{"nats-0.example.org", "10.0.0.7", "fd00::7"}

// A server reads what auth init has made for each of a cluster, and finds the others by it.
func TestClusterConfig(t *testing.T) {
	s := testusers.Demo("acme")
	s.Servers = clusterHosts
	f := testusers.Make(t, s)
	for i, host := range clusterHosts {
		opts, err := server.ProcessConfigFile(f.ServerConfig(host))
		if err != nil {
			t.Fatal(err)
		}
		var routes []string
		for _, r := range opts.Routes {
			routes = append(routes, r.String())
		}
		want := []string{"tls://nats-0.example.org:6222", "tls://10.0.0.7:6222", "tls://[fd00::7]:6222"}
		if want = slices.Delete(want, i, i+1); !slices.Equal(routes, want) {
			t.Errorf("%s has routes to %v, want %v", host, routes, want)
		}
		if opts.ServerName != host || opts.Cluster.Name != "switchyard" || !strings.Contains(opts.ClientAdvertise, host) || !strings.Contains(opts.Cluster.Advertise, host) {
			t.Errorf("%s is %q of cluster %q at %s, %s", host, opts.ServerName, opts.Cluster.Name, opts.ClientAdvertise, opts.Cluster.Advertise)
		}
		if c := opts.Cluster.TLSConfig; c == nil || c.ClientAuth != tls.RequireAndVerifyClientCert || c.ClientCAs == nil || c.RootCAs == nil {
			t.Errorf("%s takes routes without a certificate", host)
		}
		if opts.TLSConfig == nil || len(opts.TrustedOperators) != 1 || opts.SystemAccount == "" || !opts.JetStream || !opts.NoFastProducerStall {
			t.Errorf("%s lacks TLS, users or JetStream", host)
		}
	}
	if url, err := f.URL(); err != nil || url != "tls://nats-0.example.org:4222,tls://10.0.0.7:4222,tls://[fd00::7]:4222" {
		t.Errorf("clients are to go to %s, %v", url, err)
	}
	certified(t, f, append(clusterHosts, "localhost", "127.0.0.1")...)
}

// A new certificate is for further hosts, too, and for those of the one before.
func TestCertificateOfMoreHosts(t *testing.T) {
	s := testusers.Demo()
	s.Hosts = []string{"nats.example.org"}
	f := testusers.Make(t, s)
	if opts, err := server.ProcessConfigFile(f.ServerConfig("")); err != nil || opts.Cluster.Name != "" || len(opts.Routes) > 0 {
		t.Errorf("one server: cluster %q, routes %v, %v", opts.Cluster.Name, opts.Routes, err)
	}
	for _, r := range []struct {
		credentials.Renewal
		problem string
	}{
		{credentials.Renewal{Hosts: []string{"more.example.org"}}, "add --certificate"},
		{credentials.Renewal{Certificate: true, Hosts: []string{"tls://more"}}, `host "tls://more"`},
	} {
		if _, err := f.Rotate(r.Renewal); err == nil || !strings.Contains(err.Error(), r.problem) {
			t.Errorf("%v, want %q", err, r.problem)
		}
	}
	for _, host := range []string{"10.0.0.8", "more.example.org", "more.example.org"} {
		if _, err := f.Rotate(credentials.Renewal{Users: []string{"sys"}, Certificate: true, Hosts: []string{host}}); err != nil {
			t.Fatal(err)
		}
	}
	c := certified(t, f, "nats.example.org", "localhost", "::1", "10.0.0.8", "more.example.org")
	if len(c.DNSNames) != 3 || len(c.IPAddresses) != 3 {
		t.Errorf("names %v, addresses %v", c.DNSNames, c.IPAddresses)
	}
}

// certified wants the folder's certificate to be its authority's, as a server's and as a
// client's, for each of the hosts.
func certified(t *testing.T, f credentials.Folder, hosts ...string) *x509.Certificate {
	t.Helper()
	dir := filepath.Dir(f.ServerConfig(""))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(f.CA())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		for _, host := range hosts {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
	return pair.Leaf
}
