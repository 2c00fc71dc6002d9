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
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
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

// A server of auth init has room for all of its models, also for deep ones; a running one
// takes the limits of more models, and no folder gets lower ones.
func TestLimits(t *testing.T) {
	s := testusers.Demo()
	big := rights.Model{Name: "big"}
	for l := range 48 {
		big.MoELayers = append(big.MoELayers, l)
	}
	s.Scope.Models = []rights.Model{big}
	f := testusers.Make(t, s)
	srv, err := server.NewServer(withStore(t, f))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	srv.Start()
	for _, step := range []struct {
		name    string
		models  []rights.Model
		storage credentials.Storage
		limits  [2]int64 // of memory and file, in GiB
	}{
		{"as made", nil, credentials.Storage{}, [2]int64{4, 6}},
		{"more models", []rights.Model{big, testusers.Demo().Scope.Models[0]}, credentials.Storage{Objects: 3 << 30}, [2]int64{4, 14}},
		{"fewer", []rights.Model{big}, credentials.Storage{LogBytes: 1 << 30}, [2]int64{4, 14}},
	} {
		if step.models != nil {
			if _, err := f.SetLimits(rights.Scope{Prefix: s.Scope.Prefix, Models: step.models}, step.storage); err != nil {
				t.Fatal(err)
			}
			if err := srv.ReloadOptions(withStore(t, f)); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		c := srv.JetStreamConfig()
		if got := [2]int64{c.MaxMemory >> 30, c.MaxStore >> 30}; got != step.limits {
			t.Errorf("%s: %v, want %v", step.name, got, step.limits)
		}
		need := schemas.Room{}
		for _, m := range step.models {
			need = need.Plus(schemas.Streams{Subjects: schemas.NewSubjects("switchyard", m.Name), LogBytes: step.storage.LogBytes}.Room(m.MoELayers))
		}
		if c.MaxMemory < need.Memory || c.MaxStore < need.File+step.storage.Objects {
			t.Errorf("%s: %+v, and %+v is needed", step.name, c, need)
		}
	}
}

// withStore are the settings of the folder's server, on a free port and with a store that
// goes with the test.
func withStore(t *testing.T, f credentials.Folder) *server.Options {
	t.Helper()
	opts, err := server.ProcessConfigFile(f.ServerConfig(""))
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
	return opts
}
