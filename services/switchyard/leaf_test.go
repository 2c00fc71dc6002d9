package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// An expert host and producers behind a leaf node with JetStream of its own work as the others do, by a flag and
// by a NATS context.
func TestLeafNode(t *testing.T) {
	o := &server.Options{ServerName: "hub", JetStream: true, JetStreamDomain: "hub", StoreDir: t.TempDir(), LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT}}
	hub := startNATS(t, o)
	remote := &url.URL{Scheme: "nats-leaf", Host: fmt.Sprintf("127.0.0.1:%d", o.LeafNode.Port)}
	leaf := startNATS(t, &server.Options{ServerName: "leaf", JetStream: true, JetStreamDomain: "edge", StoreDir: t.TempDir(), LeafNode: server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}}})
	testkit.Eventually(t, "the leaf node is connected", func() bool { return hub.NumLeafNodes() == 1 })
	for _, service := range cluster.Names {
		if service == "expert" {
			startProcess(t, service, leaf.ClientURL(), "--js-domain", "hub")
		} else {
			startProcess(t, service, hub.ClientURL())
		}
	}
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	contexts := filepath.Join(dir, "nats", "context")
	if err := os.MkdirAll(contexts, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(contexts, "leaf.json"), fmt.Appendf(nil, `{"url":%q,"jetstream_domain":"hub"}`, leaf.ClientURL()), 0o600); err != nil {
		t.Fatal(err)
	}
	prompt := []string{"prompt", "--max-tokens", "8", "Once upon a time"}
	want := invokePatiently(t, append([]string{"--nats", hub.ClientURL()}, prompt...)...)
	if want.Code != 0 || want.Out == "" {
		t.Fatalf("at the hub: %d %s", want.Code, want.Err)
	}
	for name, from := range map[string][]string{"a flag": {"--nats", leaf.ClientURL(), "--js-domain", "hub"}, "a context": {"--nats", "leaf"}} {
		if got := invokePatiently(t, append(from, prompt...)...); got.Code != 0 || got.Out != want.Out {
			t.Errorf("%s: %d %q %s, want %q", name, got.Code, got.Out, got.Err, want.Out)
		}
		if got := invokePatiently(t, append(from, "top", "--json")...); got.Code != 0 || !strings.Contains(got.Out, `"serving":true`) {
			t.Errorf("top by %s: %d %.300s %s", name, got.Code, got.Out, got.Err)
		}
	}
}
