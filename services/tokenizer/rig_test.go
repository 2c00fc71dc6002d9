package tokenizer

import (
	"bufio"
	"context"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

var demo = sync.OnceValues(model.Demo)

// rig is a real server with tokenizer replicas. The test plays attention: it
// takes sequences and writes token logs.
type rig struct {
	t     testing.TB
	srv   *natsserver.Server
	url   string       // the server's
	model *model.Model // nil: the demo
	d     *deployment.Deployment
	log   *tokenlog.Log
	nc    *nats.Conn // a producer's
	// leave has what seems to be attention go.
	leave func()
	// observe, if set, stands before what observes the connections that are made from now on.
	observe func(bus.Observer) bus.Observer

	bounds bounds
}

// bounds are small ones in place of the defaults.
type bounds struct {
	maxPayload int
	logBytes   int64
	logAge     time.Duration
}

// newRig starts a server and a number of replicas, and seems to have attention.
func newRig(t testing.TB, replicas int, change ...func(*Config)) *rig {
	t.Helper()
	return newBoundedRig(t, bounds{}, replicas, change...)
}

func newBoundedRig(t testing.TB, b bounds, replicas int, change ...func(*Config)) *rig {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", MaxPayload: b.maxPayload})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	r := &rig{t: t, srv: srv, url: srv.URL(), bounds: b}
	if r.nc, err = nats.Connect(srv.URL(), nats.Timeout(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.nc.Close)
	r.deploy("attention-1")
	for range replicas {
		r.replica(change...)
	}
	return r
}

// deploy opens the model's deployment, and seems to have attention in it.
func (r *rig) deploy(attention string) {
	r.t.Helper()
	r.d = r.deployment()
	r.log = tokenlog.Of(r.d, attention)
	p := r.d.NewPresence(attention, "attention")
	p.SetReady(true)
	r.leave = r.run(p.Announce)
}

// run calls fn until the test ends, or stop is called.
func (r *rig) run(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = fn(ctx) }()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) deployment() *deployment.Deployment {
	r.t.Helper()
	tel, err := telemetry.Setup(r.t.Context(), telemetry.Config{})
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := r.model, error(nil)
	if m == nil {
		m, err = demo()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	traffic := deployment.NewTraffic(schemas.DefaultPrefix, tel.Metrics)
	observer := bus.Observer(traffic)
	if r.observe != nil {
		observer = r.observe(traffic)
	}
	conn := r.connect(bus.Settings{Observer: observer, Logger: log})
	d, err := deployment.Open(r.t.Context(), deployment.Settings{
		Conn: conn, Model: m, Prefix: schemas.DefaultPrefix, Hops: schemas.HopsCore, Wire: tensor.F32,
		LogBytes: r.bounds.logBytes, LogAge: r.bounds.logAge, Telemetry: tel, Traffic: traffic, Logger: log,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	d.Edge = r.connect(bus.Settings{Observer: observer, Logger: log, MaxHeaders: 64})
	return d
}

func (r *rig) connect(s bus.Settings) *bus.Conn {
	r.t.Helper()
	conn, err := bus.Connect(r.t.Context(), bus.Config{URL: r.url}, s)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(conn.Close)
	return conn
}

// replica starts one more tokenizer.
func (r *rig) replica(change ...func(*Config)) *Service {
	r.t.Helper()
	c := Config{MaxQueued: DefaultMaxQueued}
	for _, f := range change {
		f(&c)
	}
	s := New(r.deployment(), c)
	r.start(s)
	return s
}

// start lets a replica run until the test ends, or drain is called, which takes as long
// as it needs.
func (r *rig) start(s *Service) (drain func()) {
	r.t.Helper()
	if err := s.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	end := r.run(s.Run)
	r.eventually("the replica sees attention", func() bool { return s.notReady() == nil })
	return func() { end(); stop() }
}

// hold keeps a replica busy with texts that begin so, until release is called.
func (r *rig) hold(s *Service, prefix string) (release func()) {
	encode, gate := s.model.EncodeText, make(chan struct{})
	s.model.EncodeText = func(text string, special bool) ([]uint32, error) {
		if strings.HasPrefix(text, prefix) {
			<-gate
		}
		return encode(text, special)
	}
	release = sync.OnceFunc(func() { close(gate) })
	r.t.Cleanup(release)
	return release
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) eventually(what string, cond func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, what, cond)
}

// send publishes as a producer; the server has it when send returns.
func (r *rig) send(subject, reply string, body []byte, header nats.Header) {
	r.t.Helper()
	if err := r.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: body, Header: header}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.nc.Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// listen collects what comes to a subject.
func (r *rig) listen(subject string) *reader {
	r.t.Helper()
	got := &reader{r: r, subject: subject}
	sub, err := r.nc.Subscribe(subject, got.take)
	if err != nil {
		r.t.Fatal(err)
	}
	got.sub = sub
	if err := r.nc.Flush(); err != nil {
		r.t.Fatal(err)
	}
	return got
}

// reader is one who waits for an answer in JSON or protobuf.
type reader struct {
	r       *rig
	subject string
	sub     *nats.Subscription

	mu   sync.Mutex
	msgs []*nats.Msg
}

func (g *reader) take(m *nats.Msg) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.msgs = append(g.msgs, m)
}

func (g *reader) all() []*nats.Msg {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*nats.Msg(nil), g.msgs...)
}

func (g *reader) chunks() (out []*pb.Chunk) {
	for _, m := range g.all() {
		c := &pb.Chunk{}
		if m.Header.Get(schemas.HeaderContentType) == schemas.ContentProtobuf {
			_ = proto.Unmarshal(m.Data, c)
		} else {
			_ = fromJSON(m.Data, c)
		}
		out = append(out, c)
	}
	return out
}

// ends are the chunks that end an answer.
func (g *reader) ends() (out []*pb.Chunk) {
	for _, c := range g.chunks() {
		if c.FinishReason != "" {
			out = append(out, c)
		}
	}
	return out
}

// end waits for the first end.
func (g *reader) end() *pb.Chunk {
	g.r.t.Helper()
	g.r.eventually("an end on "+g.subject, func() bool { return len(g.ends()) > 0 })
	return g.ends()[0]
}

// leave ends the reader's interest.
func (g *reader) leave() {
	g.r.t.Helper()
	_ = g.sub.Unsubscribe()
	if err := g.r.nc.Flush(); err != nil {
		g.r.t.Fatal(err)
	}
}

func (r *rig) inbox() *reader { return r.listen(r.nc.NewInbox()) }

// opened waits until a request's log is there.
func (r *rig) opened(request string) *pb.Accept {
	r.t.Helper()
	var accept *pb.Accept
	r.eventually("the acceptance of "+request, func() bool {
		a, err := r.log.Opening(r.ctx(), request)
		accept = a
		return err == nil
	})
	return accept
}

// claim makes the test the owner of a request.
func (r *rig) claim(request string) *tokenlog.Writer {
	r.t.Helper()
	w, _, err := r.log.Claim(r.ctx(), request, r.opened(request), tokenlog.WriterSettings{})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func (r *rig) append(w *tokenlog.Writer, records ...*pb.Record) {
	r.t.Helper()
	for _, rec := range records {
		if err := w.Append(rec); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := w.Flush(r.ctx()); err != nil {
		r.t.Fatal(err)
	}
}

// terminal is the end of a request, nil if it has none.
func (r *rig) terminal(request string) *pb.Terminal {
	all, _, err := r.log.Read(r.ctx(), request, math.MaxUint64)
	if err != nil || len(all) == 0 {
		return nil
	}
	return all[len(all)-1].Record.GetTerminal()
}

func token(i int) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: int32(i), Id: uint32(300 + i)}}}
}

func ending(reason string) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: reason}}}
}

// raw writes protocol that no client library would, and waits until the server
// has it.
func (r *rig) raw(lines string) {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.srv.URL(), "nats://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\n" + lines + "PING\r\n")); err != nil {
		r.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			r.t.Fatalf("the server: %v", err)
		}
		if strings.HasPrefix(line, "PONG") {
			return
		}
	}
}
