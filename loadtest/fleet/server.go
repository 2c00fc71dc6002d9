package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

// Server is a nats-server's process, always with the same name, addresses and store.
type Server struct {
	*Process
	Name string
	// Addr is HOST:PORT for clients, Routes for the other servers.
	Addr, Routes string

	t       *testing.T
	program string
	conf    string
	store   string // its folder
}

func newServers(t *testing.T, s Settings) []*Server {
	t.Helper()
	all := make([]*Server, max(s.Servers, 1))
	for i := range all {
		dir := t.TempDir()
		all[i] = &Server{
			Name: fmt.Sprintf("nats-%d", i), Addr: testkit.FreeAddr(t), Routes: testkit.FreeAddr(t), t: t,
			program: filepath.Join(s.Programs, "nats-server"), conf: filepath.Join(dir, "nats.conf"), store: filepath.Join(dir, "store"),
		}
		if s.Store != nil {
			all[i].store = s.Store(i)
		}
	}
	for i, server := range all {
		server.write(s.settings(all, i))
		server.Launch()
	}
	for _, server := range all {
		server.awaitReady()
	}
	return all
}

func (s Settings) settings(all []*Server, i int) string {
	this := all[i]
	var b strings.Builder
	fmt.Fprintf(&b, "server_name: %q\nlisten: %q\njetstream {\n  store_dir: %q\n  %s\n}\n", this.Name, this.Addr, this.store, s.JetStream)
	if len(all) > 1 {
		// Nobody is told of addresses, so that a proxy between two servers, or
		// between a client and a server, cannot be got round.
		fmt.Fprintf(&b, "cluster {\n  name: fleet\n  listen: %q\n  no_advertise: true\n  advertise: \"127.0.0.1:1\"\n  routes: [%s]\n}\n",
			this.Routes, strings.Join(s.routes(all, i), ", "))
	}
	b.WriteString(s.ServerConfig)
	return b.String()
}

// routes are the addresses at which the i-th server looks for the others.
func (s Settings) routes(all []*Server, i int) (urls []string) {
	for j, other := range all {
		if j == i {
			continue
		}
		addr := other.Routes
		if s.RouteVia != nil {
			addr = s.RouteVia(i, j, addr)
		}
		urls = append(urls, fmt.Sprintf("%q", "nats://"+addr))
	}
	return urls
}

func (s *Server) write(config string) {
	s.t.Helper()
	if err := os.WriteFile(s.conf, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Start starts it, again after its end, and waits until it takes clients. In a
// cluster it may not have caught up with the others by then.
func (s *Server) Start() {
	s.t.Helper()
	s.Launch()
	s.awaitReady()
}

// Launch is Start without waiting.
func (s *Server) Launch() {
	s.t.Helper()
	s.Process = Launch(s.t, s.Name, s.program, "-c", s.conf)
}

func (s *Server) awaitReady() {
	s.t.Helper()
	s.Await(s.t, "Server is ready")
}

// Empty removes all that it has stored; it must have ended.
func (s *Server) Empty() {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.store, "jetstream")); err != nil {
		s.t.Fatal(err)
	}
}
