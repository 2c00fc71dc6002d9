package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// store is the folder of a server that is killed, and comes back with what a disk has made of it.
type store struct {
	t   *testing.T
	on  natsserver.Settings
	srv *natsserver.Server
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{t: t, on: natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"}}
	s.start()
	s.on.Listen = strings.TrimPrefix(s.srv.URL(), "nats://")
	t.Cleanup(func() { s.srv.Shutdown() })
	return s
}

func (s *store) start() {
	s.t.Helper()
	srv, err := natsserver.Start(s.on)
	if err != nil {
		s.t.Fatal(err)
	}
	s.srv = srv
}

// crash kills the server, spoils what it had written, and starts it again.
func (s *store) crash(spoil func(jetstream string)) {
	s.t.Helper()
	as := filepath.Join(s.t.TempDir(), "as it was") // without what a server writes when it stops
	if err := os.CopyFS(as, os.DirFS(s.on.StoreDir)); err != nil {
		s.t.Fatal(err)
	}
	s.srv.Shutdown()
	if err := errors.Join(os.RemoveAll(s.on.StoreDir), os.CopyFS(s.on.StoreDir, os.DirFS(as))); err != nil {
		s.t.Fatal(err)
	}
	spoil(s.on.StoreDir)
	s.start()
}

// blocks are the files with messages of a stream, in their order.
func blocks(t *testing.T, dir, stream string) (files []string) {
	t.Helper()
	files = under(t, dir, stream, ".blk")
	if len(files) == 0 {
		t.Fatalf("stream %s has no blocks", stream)
	}
	return files
}

func under(t *testing.T, dir, stream, suffix string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, string(filepath.Separator)+stream+string(filepath.Separator)+"msgs") && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
	return files
}

// flip turns bits over at a share of the way through a file, or cuts it there.
func flip(t *testing.T, file string, at float64, cut bool) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	i := int(float64(len(data)) * at)
	if cut {
		data = data[:i]
	} else {
		for k := range min(3, len(data)-i) {
			data[i+k] ^= 0x10
		}
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// damages are what disks do to stores.
var damages = []struct {
	name  string
	spoil func(t *testing.T, dir string, s schemas.Streams)
}{
	{"bits of TOKENS near the end", func(t *testing.T, dir string, s schemas.Streams) {
		flip(t, last(blocks(t, dir, s.Tokens().Name)), 0.8, false)
	}},
	{"bits of TOKENS in the middle", func(t *testing.T, dir string, s schemas.Streams) {
		flip(t, last(blocks(t, dir, s.Tokens().Name)), 0.4, false)
	}},
	{"bits of the first record of TOKENS", func(t *testing.T, dir string, s schemas.Streams) {
		flip(t, blocks(t, dir, s.Tokens().Name)[0], 0.01, false)
	}},
	{"a block of TOKENS cut", func(t *testing.T, dir string, s schemas.Streams) {
		flip(t, last(blocks(t, dir, s.Tokens().Name)), 0.6, true)
	}},
	{"the last block of TOKENS gone", func(t *testing.T, dir string, s schemas.Streams) { remove(t, last(blocks(t, dir, s.Tokens().Name))) }},
	{"TOKENS gone", func(t *testing.T, dir string, s schemas.Streams) { removeStream(t, dir, s.Tokens().Name) }},
	{"bits of SEQUENCES", func(t *testing.T, dir string, s schemas.Streams) {
		flip(t, last(blocks(t, dir, s.Sequences().Name)), 0.1, false)
	}},
	{"SEQUENCES and TOKENS cut", func(t *testing.T, dir string, s schemas.Streams) {
		flip(t, last(blocks(t, dir, s.Sequences().Name)), 0.1, true)
		flip(t, last(blocks(t, dir, s.Tokens().Name)), 0.3, true)
	}},
	{"bits of PROMPTS", func(t *testing.T, dir string, s schemas.Streams) {
		flip(t, last(blocks(t, dir, s.Prompts().Name)), 0.1, false)
	}},
	{"bits of buckets", func(t *testing.T, dir string, s schemas.Streams) {
		for _, bucket := range []string{"members", "plans", "functions", "leases"} {
			flip(t, last(blocks(t, dir, schemas.BucketStream(s.Bucket(bucket)))), 0.3, false)
		}
	}},
	{"no indexes", func(t *testing.T, dir string, s schemas.Streams) {
		for _, stream := range []string{s.Tokens().Name, s.Sequences().Name, s.Prompts().Name} {
			for _, file := range under(t, dir, stream, "index.db") {
				remove(t, file)
			}
		}
	}},
}

func last(files []string) string { return files[len(files)-1] }

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func removeStream(t *testing.T, dir, stream string) {
	t.Helper()
	remove := filepath.Dir(filepath.Dir(blocks(t, dir, stream)[0]))
	if err := os.RemoveAll(remove); err != nil {
		t.Fatal(err)
	}
}

// Answers stay whole and the same when a server that was killed comes back without what it had acknowledged.
func TestLostStore(t *testing.T) {
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) { outlives(t, d.spoil) })
	}
}

const lostRequests, lostTokens = 6, 200

func outlives(t *testing.T, spoil func(*testing.T, string, schemas.Streams)) {
	t.Helper()
	s := settings(t)
	var log locked
	s.Node.Shared.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var valve clustertest.Valve
	valve.In(&s)
	disk := newStore(t)
	s.Node.Bus.URL = disk.srv.URL()
	p := cluster.NewPipeline(s.Node, s.Services, cluster.OneEach())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx) }()
	t.Cleanup(func() {
		valve.Open()
		cancel()
		if err := errors.Join(<-ended, s.Node.Close()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	testkit.Eventually(t, "it is ready", func() bool { return p.Ready() == nil })
	conn, err := bus.Connect(t.Context(), s.Node.Bus, bus.Settings{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	producer := client.New(conn.NATS(), client.Settings{Model: s.Node.ModelName()})
	var want [lostRequests]*answering
	for i := range want {
		want[i] = asking(t, producer, i)
		want[i].wait(t)
	}
	var got [lostRequests]*answering
	for i := range got {
		got[i] = asking(t, producer, i)
	}
	testkit.Eventually(t, "all have begun", func() bool {
		return !slices.ContainsFunc(got[:], func(g *answering) bool { return g.tokens() == 0 })
	})
	valve.Shut(t)
	disk.crash(func(dir string) { spoil(t, dir, s.Node.Names()) })
	valve.Open()
	for i, g := range got {
		g.wait(t)
		if !bytes.Equal(g.ids, want[i].ids) || len(g.ids) == 0 {
			t.Errorf("request %d: %d bytes of ids, want the %d of before", i, len(g.ids), len(want[i].ids))
		}
	}
	after := asking(t, producer, 0)
	after.wait(t)
	if !bytes.Equal(after.ids, want[0].ids) {
		t.Error("the next answer is another one")
	}
}

// answering is an answer as it comes.
type answering struct {
	mu   sync.Mutex
	ids  []byte
	n    int
	err  error
	done chan struct{}
}

func asking(t *testing.T, c *client.Client, i int) *answering {
	t.Helper()
	stream, err := c.Prompt(t.Context(), &pb.Prompt{
		InputIds: []uint32{uint32(i + 1), 2, 3}, Seed: proto.Uint32(uint32(i)), Temperature: proto.Float64(1), MaxTokens: proto.Int32(lostTokens), IgnoreEos: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &answering{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for c, err := range stream.Chunks() {
			a.take(c, err)
		}
	}()
	return a
}

func (a *answering) take(c *pb.Chunk, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		err = client.Failure(c)
	}
	a.err = errors.Join(a.err, err)
	for _, id := range c.GetTokenIds() {
		a.ids = fmt.Appendf(a.ids, "%d ", id)
		a.n++
	}
}

func (a *answering) tokens() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

func (a *answering) wait(t *testing.T) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(testkit.Patience):
		t.Fatalf("no end; %d tokens came", a.tokens())
	}
	if a.err != nil || a.n != lostTokens {
		t.Errorf("%d tokens, error %v", a.n, a.err)
	}
}

// locked is a log that several write.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
