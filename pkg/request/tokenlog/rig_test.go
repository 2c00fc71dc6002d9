package tokenlog

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

var names = schemas.Streams{Subjects: schemas.NewSubjects("test", "m")}

type rig struct {
	t    testing.TB
	dir  string
	addr string
	srv  *natsserver.Server
	log  *Log
	conn *bus.Conn // of log

	passed atomic.Int32
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	r.start()
	r.addr = strings.TrimPrefix(r.srv.URL(), "nats://")
	t.Cleanup(func() { r.srv.Shutdown() })
	r.conn = r.connect(r.addr)
	if err := r.conn.Ensure(r.ctx(), 1, names.Tokens()); err != nil {
		t.Fatal(err)
	}
	r.log = New(r.conn, names, r.as("a"))
	return r
}

func (r *rig) start() {
	r.t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: r.dir, Listen: r.addr})
	if err != nil {
		r.t.Fatal(err)
	}
	r.srv = srv
}

func (r *rig) restart() { r.srv.Shutdown(); r.start() }

func (r *rig) connect(addr string) *bus.Conn {
	r.t.Helper()
	c, err := bus.Connect(r.ctx(), bus.Config{URL: "nats://" + addr}, bus.Settings{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	r.t.Cleanup(cancel)
	return ctx
}

// as are the settings of a replica; what it passes over is counted.
func (r *rig) as(writer string) Settings {
	return Settings{Rules: rules, Writer: writer, Passed: func(string, error, bool) { r.passed.Add(1) }}
}

var rules = Rules{Model: 7, Vocab: 10_000, Positions: 10_000}

// opening is what requests here are opened with.
func opening(promptSequence uint64) *pb.Accept {
	return &pb.Accept{
		Identity: &pb.Identity{Version: schemas.Version, Model: 7}, PromptSequence: promptSequence, PromptTokens: 5, MaxTokens: 5000,
	}
}

func (r *rig) accept(request string) {
	r.t.Helper()
	if existing, err := r.log.Accept(r.ctx(), request, opening(0)); err != nil || existing != nil {
		r.t.Fatalf("accepting %s: %v, error %v", request, existing, err)
	}
}

func (r *rig) claim(l *Log, request string, s WriterSettings) (*Writer, []Entry) {
	r.t.Helper()
	w, history, err := l.Claim(r.ctx(), request, opening(0), s)
	if err != nil {
		r.t.Fatal(err)
	}
	return w, history
}

func (r *rig) flush(w *Writer) {
	r.t.Helper()
	if err := w.Flush(r.ctx()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(request string) []Entry {
	r.t.Helper()
	all, _, err := r.log.Read(r.ctx(), request, math.MaxUint64)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func token(i int) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: int32(i), Id: uint32(i)}}}
}

func terminal(reason string) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: reason}}}
}

func appendAll(t testing.TB, w *Writer, records ...*pb.Record) {
	t.Helper()
	for _, r := range records {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

// kinds is a log in short: "A C1 0 1 C2 2 T".
func kinds(entries []Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, kind(e.Record))
	}
	return strings.Join(out, " ")
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, what, ok)
}

// proxy is a connection to the server that can lose the answers.
type proxy struct {
	t      testing.TB
	listen net.Listener
	target string
	tasks  sync.WaitGroup

	mu    sync.Mutex
	mute  bool
	conns []net.Conn
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: l, target: target}
	p.tasks.Go(p.serve)
	t.Cleanup(func() { _ = l.Close(); p.cut(); p.tasks.Wait() })
	return p
}

func (p *proxy) serve() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.tasks.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
		p.tasks.Go(func() { p.answers(client, server); _ = client.Close() })
	}
}

func (p *proxy) answers(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if mute {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// loseAnswers drops what the server says from now on.
func (p *proxy) loseAnswers() {
	p.mu.Lock()
	p.mute = true
	p.mu.Unlock()
}

// cut closes the connections; new ones work.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns, p.mute = nil, false
}
