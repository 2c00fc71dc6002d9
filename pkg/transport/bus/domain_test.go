package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// leafNode is a server with JetStream in domain hub, and a leaf node of it with JetStream of its own.
func leafNode(t *testing.T) (hub, leaf string) {
	t.Helper()
	start := func(o *server.Options) *server.Server {
		o.Host, o.Port, o.NoLog, o.NoSigs, o.JetStream, o.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, true, t.TempDir()
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		if !s.ReadyForConnections(testkit.Patience) {
			t.Fatal("a server is not ready")
		}
		return s
	}
	up := &server.Options{ServerName: "hub", JetStreamDomain: "hub", LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT}}
	h := start(up)
	remote := &url.URL{Scheme: "nats-leaf", Host: fmt.Sprintf("127.0.0.1:%d", up.LeafNode.Port)}
	l := start(&server.Options{ServerName: "leaf", JetStreamDomain: "edge", LeafNode: server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}}})
	testkit.Eventually(t, "the leaf node is connected", func() bool { return h.NumLeafNodes() == 1 && l.NumLeafNodes() == 1 })
	return h.ClientURL(), l.ClientURL()
}

// heardKeys are the writes that a FollowKeys has told.
type heardKeys struct {
	mu  sync.Mutex
	all []string
}

func (h *heardKeys) hear(key string, value []byte, deleted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, fmt.Sprintf("%s=%s,%v", key, value, deleted))
}

func (h *heardKeys) has(write string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.all, write)
}

// Behind a leaf node, keys are written, read, erased and followed as at the servers that store them, by
// the domain's name or by its prefix; streams that are missing are made there with the copies that there can be.
func TestDomain(t *testing.T) {
	hub, leaf := leafNode(t)
	ctx := t.Context()
	conn := func(c Config) *Conn {
		t.Helper()
		conn, err := Connect(ctx, c, Settings{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	there := conn(Config{URL: hub})
	for i, c := range []Config{{URL: leaf, Domain: "hub"}, {URL: leaf, APIPrefix: "$JS.hub.API"}} {
		bucket := fmt.Sprintf("keys%d", i)
		here := conn(c)
		kv, err := here.EnsureBucket(ctx, 0, bucket, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := AsBucket(kv)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := there.EnsureBucket(ctx, 0, bucket, 0); err != nil {
			t.Fatal(err) // the stream is where it is to be
		}
		var atHub, atLeaf heardKeys
		for conn, heard := range map[*Conn]*heardKeys{there: &atHub, here: &atLeaf} {
			stop, err := conn.FollowKeys(bucket, ">", heard.hear)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
		}
		if _, err := b.Store(ctx, "stored", []byte("1")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Create(ctx, "created", []byte("2")); err != nil {
			t.Fatal(err)
		}
		if err := there.SendBytes(ctx, KeySubject(bucket, "told"), []byte("3"), nil); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the key is heard before it is erased", func() bool { return atLeaf.has("created=2,false") })
		if err := here.EraseKey(ctx, bucket, "created"); err != nil {
			t.Fatal(err)
		}
		for where, heard := range map[string]*heardKeys{"hub": &atHub, "leaf": &atLeaf} {
			for _, write := range []string{"stored=1,false", "created=2,false", "told=3,false", "created=,true"} {
				testkit.Eventually(t, write+" is heard at the "+where, func() bool { return heard.has(write) })
			}
		}
		if e, err := b.Get(ctx, "told"); err != nil || string(e.Value()) != "3" {
			t.Errorf("%v, %v", e, err)
		}
		spec := schemas.Streams{Subjects: schemas.NewSubjects(fmt.Sprint("p", i), "m")}.Prompts()
		if err := here.Ensure(ctx, 0, spec); err != nil {
			t.Fatal(err)
		}
		made, err := there.JetStream().Stream(ctx, spec.Name)
		if err != nil || made.CachedInfo().Config.Replicas != 1 {
			t.Fatalf("the stream at the hub: %v", err)
		}
		again := conn(c) // knows nothing of what was found
		if err := again.Ensure(ctx, 0, spec); err != nil {
			t.Errorf("the stream that there is: %v", err)
		}
	}
	if _, err := conn(Config{URL: leaf}).JetStream().Stream(ctx, "p0_PROMPTS_m"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the leaf node's own JetStream: %v", err)
	}
}

func TestCheckAPI(t *testing.T) {
	for _, c := range []Config{{Domain: "hub"}, {APIPrefix: "JS.hub.API"}, {APIPrefix: "$JS.hub.API."}, {}} {
		if _, _, err := c.resolve(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for says, c := range map[string]Config{
		"give one of them": {Domain: "hub", APIPrefix: "JS.hub.API"}, "one token": {Domain: "a.b"}, "it must be as in": {APIPrefix: "JS.*"}, "--js-domain": {Domain: "a>"}, "--js-api-prefix": {APIPrefix: "a..b"},
	} {
		if _, _, err := c.resolve(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", c, err, says)
		}
	}
}
