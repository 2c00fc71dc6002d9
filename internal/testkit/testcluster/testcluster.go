// Package testcluster gives tests a cluster of three NATS servers, within the
// process. What only a killed process shows is for load tests.
package testcluster

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/internal/testkit"
)

// Servers are a cluster.
type Servers []*server.Server

const size = 3

// Start starts the servers and waits until they have JetStream.
func Start(t testing.TB) Servers {
	t.Helper()
	seed := launch(t, 0, "nats://127.0.0.1:1") // somebody has to be first; a cluster's server must have a route
	all := Servers{seed}
	for i := 1; i < size; i++ {
		all = append(all, launch(t, i, "nats://"+seed.ClusterAddr().String()))
	}
	testkit.Eventually(t, "the cluster has a leader, and all servers", func() bool {
		for _, s := range all {
			if s.JetStreamIsLeader() {
				return len(s.JetStreamClusterPeers()) == size
			}
		}
		return false
	})
	return all
}

func launch(t testing.TB, i int, route string) *server.Server {
	t.Helper()
	u, err := url.Parse(route)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: fmt.Sprintf("nats-%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: t.TempDir(), Routes: []*url.URL{u},
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT},
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(testkit.Patience) {
		t.Fatalf("server %d is not ready after %v", i, testkit.Patience)
	}
	return s
}

// URL lists all servers.
func (all Servers) URL() string {
	urls := make([]string, len(all))
	for i, s := range all {
		urls[i] = s.ClientURL()
	}
	return strings.Join(urls, ",")
}

// Named returns the server of that name.
func (all Servers) Named(t testing.TB, name string) *server.Server {
	t.Helper()
	for _, s := range all {
		if s.Name() == name {
			return s
		}
	}
	t.Fatalf("no server is named %q", name)
	return nil
}
