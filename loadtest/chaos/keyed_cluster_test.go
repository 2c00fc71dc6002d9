package chaos

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// keyedHosts are three hosts on one machine.
var keyedHosts = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}

// TestClusterAuth serves on a cluster with what `switchyard auth init --servers` makes:
// routes and clients speak TLS, and everybody has a key of his own. While answers stream,
// the server that leads is killed, all keys are made anew, then the certificate, for one host
// more, and the leader is killed again. Each answer is whole.
func TestClusterAuth(t *testing.T) {
	wantsCluster(t)
	k := newKeyedCluster(t)
	old := filepath.Join(t.TempDir(), "old.creds")
	k.copyCreds(old)
	k.wantThreeCopies()
	answers := k.whileAsking(func() {
		k.killLeader("before")
		k.program("switchyard", "auth", "rotate", k.dir)
		k.deliver("accounts.conf")
		k.complete(t, k.login(), "new-key", 60)
		k.program("switchyard", "auth", "rotate", k.dir, "sys", "--certificate", "--hosts", "more.example.org")
		k.deliver("accounts.conf", "server.pem", "server-key.pem")
		k.wantCertificate("more.example.org")
		k.killLeader("after")
	})
	t.Logf("%d answers", answers)
	for _, s := range k.servers {
		if nc, err := nats.Connect(s.url(k.port), k.options(old)...); err == nil {
			nc.Close()
			t.Errorf("%s lets in a key that was revoked", s.host)
		}
		if err := shakeHands(s.host, k.routes); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s takes a route from who has no certificate: %v", s.host, err)
		}
	}
	k.wantThreeCopies()
	k.checkLogs()
}

// keyedCluster is a cluster's servers and services with credentials of a folder.
type keyedCluster struct {
	keyed

	servers      []*keyedServer
	port, routes string // of all servers
}

// keyedServer is a server with a copy of its own of what the servers need.
type keyedServer struct {
	*fleet.Process

	host, dir string
}

func (s *keyedServer) url(port string) string { return "tls://" + net.JoinHostPort(s.host, port) }

func newKeyedCluster(t *testing.T) *keyedCluster {
	t.Helper()
	k := &keyedCluster{
		keyed: keyed{
			guarded: guarded{t: t, programs: fleet.Build(t), procs: map[string]*fleet.Process{}},
			dir:     filepath.Join(t.TempDir(), "auth"),
		},
		port: testkit.FreePort(t), routes: testkit.FreePort(t),
	}
	k.program("switchyard", "auth", "init", k.dir, "--servers", strings.Join(keyedHosts, ","))
	urls := make([]string, len(keyedHosts))
	for i, host := range keyedHosts {
		s := &keyedServer{host: host, dir: t.TempDir()}
		k.servers, urls[i] = append(k.servers, s), s.url(k.port)
		k.configure(s)
		k.launch(s)
	}
	k.url = strings.Join(urls, ",")
	for _, s := range k.servers {
		s.Await(t, "Server is ready")
	}
	k.launchServices(func(user string) []string {
		return []string{"--nats", k.url, "--creds", k.creds(user), "--tls-ca", k.ca()}
	}, "--edge-creds", k.creds(edge))
	return k
}

// configure gives a server its files, and settings with paths to these and with ports
// that are free.
func (k *keyedCluster) configure(s *keyedServer) {
	k.t.Helper()
	for _, file := range []string{"accounts.conf", "limits.conf", "server.pem", "server-key.pem", "ca.pem"} {
		k.copyTo(s, file)
	}
	text, err := os.ReadFile(filepath.Join(k.dir, "server", s.conf()))
	if err != nil {
		k.t.Fatal(err)
	}
	k.write(filepath.Join(s.dir, s.conf()), strings.NewReplacer(
		filepath.Join(k.dir, "server"), s.dir, "0.0.0.0:4222", s.host+":"+k.port, ":4222", ":"+k.port,
		"0.0.0.0:6222", s.host+":"+k.routes, ":6222", ":"+k.routes,
	).Replace(string(text)))
}

func (s *keyedServer) conf() string { return "nats-" + s.host + ".conf" }

func (k *keyedCluster) copyTo(s *keyedServer, file string) {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.dir, "server", file))
	if err != nil {
		k.t.Fatal(err)
	}
	k.write(filepath.Join(s.dir, file), string(data))
}

func (k *keyedCluster) launch(s *keyedServer) {
	k.t.Helper()
	s.Process = fleet.Launch(k.t, s.host, filepath.Join(k.programs, "nats-server"), "-c", filepath.Join(s.dir, s.conf()))
}

// deliver brings every server files that have changed, and has it read them.
func (k *keyedCluster) deliver(files ...string) {
	k.t.Helper()
	for _, s := range k.servers {
		for _, file := range files {
			k.copyTo(s, file)
		}
		k.program("nats-server", "--signal", "reload="+strconv.Itoa(s.PID()))
	}
}

// killLeader kills the server that leads the token log, wants an answer without it, and
// starts it again.
func (k *keyedCluster) killLeader(when string) {
	k.t.Helper()
	info := k.stream("switchyard_TOKENS_demo")
	i := slices.Index(keyedHosts, info.Cluster.Leader)
	if i < 0 {
		k.t.Fatalf("the leader is %q", info.Cluster.Leader)
	}
	k.servers[i].Kill()
	k.complete(k.t, k.login(), "without-a-server-"+when, 60)
	k.launch(k.servers[i])
	k.servers[i].Await(k.t, "Server is ready")
	k.awaitCopies()
	for _, s := range k.servers {
		k.askAt(s)
	}
}

// askAt asks by one server, wherever the tokenizer's edge is connected, and wants a whole answer.
// It asks again while that server has not heard of the tokenizer.
func (k *keyedCluster) askAt(s *keyedServer) {
	k.t.Helper()
	nc, err := nats.Connect(s.url(k.port), k.options(k.creds(producer))...)
	if err != nil {
		k.t.Fatal(err)
	}
	defer nc.Close()
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		k.t.Fatal(err)
	}
	for deadline := time.Now().Add(recovery); ; {
		if err := nc.PublishRequest("switchyard.ask.demo", inbox.Subject, []byte(texts[0])); err != nil {
			k.t.Fatal(err)
		}
		m, err := inbox.NextMsg(patience)
		for err == nil && len(m.Data) > 0 { // a text ends with an empty message
			m, err = inbox.NextMsg(patience)
		}
		switch {
		case err == nil && m.Header.Get("Switchyard-Finish-Reason") != "":
			return
		case !errors.Is(err, nats.ErrNoResponders) || time.Now().After(deadline):
			k.t.Fatalf("asking at %s: %v", s.host, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stream asks for a stream, as the administrator.
func (k *keyedCluster) stream(name string) *jetstream.StreamInfo {
	k.t.Helper()
	nc, err := nats.Connect(k.url, k.adminOptions()...)
	if err != nil {
		k.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		k.t.Fatal(err)
	}
	stream, err := js.Stream(k.t.Context(), name)
	if err != nil {
		k.t.Fatal(err)
	}
	return stream.CachedInfo()
}

func (k *keyedCluster) adminOptions() []nats.Option {
	return []nats.Option{nats.UserCredentials(k.creds("admin")), nats.RootCAs(k.ca())}
}

// durable are streams that must survive the loss of a server.
var durable = []string{
	"switchyard_PROMPTS_demo", "switchyard_SEQUENCES_demo", "switchyard_TOKENS_demo", "KV_switchyard_plans_demo", "KV_switchyard_members_demo",
	"KV_switchyard_leases_demo", "KV_switchyard_functions_demo",
}

func (k *keyedCluster) wantThreeCopies() {
	k.t.Helper()
	for _, name := range durable {
		if info := k.stream(name); info.Config.Replicas != len(keyedHosts) || info.Cluster == nil || len(info.Cluster.Replicas) != len(keyedHosts)-1 {
			k.t.Errorf("%s has %d copies: %+v", name, info.Config.Replicas, info.Cluster)
		}
	}
}

// awaitCopies waits until every server has all that must survive.
func (k *keyedCluster) awaitCopies() {
	k.t.Helper()
	for _, name := range durable {
		deadline := time.Now().Add(recovery)
		for !current(k.stream(name)) {
			if time.Now().After(deadline) {
				k.t.Fatalf("%s is not current everywhere", name)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func current(info *jetstream.StreamInfo) bool {
	return info.Cluster.Leader != "" && !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })
}

// wantCertificate waits until each server shows a certificate for a host.
func (k *keyedCluster) wantCertificate(host string) {
	k.t.Helper()
	for _, s := range k.servers {
		deadline := time.Now().Add(recovery)
		for {
			nc, err := nats.Connect(s.url(k.port), append(k.adminOptions(), nats.Secure(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}))...)
			if err == nil {
				nc.Close()
				break
			}
			if time.Now().After(deadline) {
				k.t.Fatalf("%s has no certificate for %s: %v", s.host, host, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// shakeHands begins a route as a stranger, who has no certificate.
func shakeHands(host, port string) error {
	nc, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // what it does with a stranger is what is looked at
	if err := c.Handshake(); err != nil {
		return fmt.Errorf("shaking hands: %w", err)
	}
	_, err = c.Read(make([]byte, 1)) // in TLS 1.3 it says no here
	return err
}
