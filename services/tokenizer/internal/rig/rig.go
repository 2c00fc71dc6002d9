// Package rig has tokenizer replicas on a real server, for the tests of the rooms. The test
// plays the producers, and attention: it takes sequences and writes token logs.
package rig

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

var demo = sync.OnceValues(model.Demo)

// Rig is a real server with tokenizer replicas. The test plays attention: it
// takes sequences and writes token logs.
type Rig struct {
	T     testing.TB
	Srv   *natsserver.Server
	URL   string       // the server's
	Model *model.Model // nil: the demo
	D     *deployment.Deployment
	Log   *tokenlog.Log
	NC    *nats.Conn // a producer's
	// leave has what seems to be attention go.
	Leave func()
	// observe, if set, stands before what observes the connections that are made from now on.
	Observe func(bus.Observer) bus.Observer

	Bounds Bounds
}

// Bounds are small ones in place of the defaults.
type Bounds struct {
	MaxPayload int
	LogBytes   int64
	LogAge     time.Duration
}

// New starts a server and a number of replicas, and seems to have attention.
func New(t testing.TB, replicas int, change ...func(*tokenizer.Config)) *Rig {
	t.Helper()
	return NewBounded(t, Bounds{}, replicas, change...)
}

// NewBounded is New with other bounds.
func NewBounded(t testing.TB, b Bounds, replicas int, change ...func(*tokenizer.Config)) *Rig {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", MaxPayload: b.MaxPayload})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	r := &Rig{T: t, Srv: srv, URL: srv.URL(), Bounds: b}
	if r.NC, err = nats.Connect(srv.URL(), nats.Timeout(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.NC.Close)
	r.Deploy("attention-1")
	for range replicas {
		r.Replica(change...)
	}
	return r
}

// Deploy opens the model's deployment, and seems to have attention in it.
func (r *Rig) Deploy(attention string) {
	r.T.Helper()
	r.D = r.Deployment()
	r.Log = tokenlog.Of(r.D, attention)
	p := r.D.NewPresence(attention, "attention")
	p.SetReady(true)
	r.Leave = r.Run(p.Announce)
}

// Run calls fn until the test ends, or stop is called.
func (r *Rig) Run(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = fn(ctx) }()
	stop = func() { cancel(); <-done }
	r.T.Cleanup(stop)
	return stop
}

// Deployment is a replica's, over connections of its own.
func (r *Rig) Deployment() *deployment.Deployment {
	r.T.Helper()
	tel, err := telemetry.Setup(r.T.Context(), telemetry.Config{})
	if err != nil {
		r.T.Fatal(err)
	}
	m, err := r.Model, error(nil)
	if m == nil {
		m, err = demo()
	}
	if err != nil {
		r.T.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	traffic := deployment.NewTraffic(schemas.DefaultPrefix, tel.Metrics)
	observer := bus.Observer(traffic)
	if r.Observe != nil {
		observer = r.Observe(traffic)
	}
	conn := r.Connect(bus.Settings{Observer: observer, Logger: log})
	d, err := deployment.Open(r.T.Context(), deployment.Settings{
		Conn: conn, Model: m, Prefix: schemas.DefaultPrefix, Hops: schemas.HopsCore, Wire: tensor.F32,
		LogBytes: r.Bounds.LogBytes, LogAge: r.Bounds.LogAge, Telemetry: tel, Traffic: traffic, Logger: log,
	})
	if err != nil {
		r.T.Fatal(err)
	}
	d.Edge = r.Connect(bus.Settings{Observer: observer, Logger: log, MaxHeaders: 64})
	return d
}

// Connect opens a connection that the test closes.
func (r *Rig) Connect(s bus.Settings) *bus.Conn {
	r.T.Helper()
	conn, err := bus.Connect(r.T.Context(), bus.Config{URL: r.URL}, s)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(conn.Close)
	return conn
}

// Replica is a tokenizer, with what it works with.
type Replica struct {
	*tokenizer.Service
	D *deployment.Deployment
}

// Replica starts one more tokenizer.
func (r *Rig) Replica(change ...func(*tokenizer.Config)) *Replica {
	r.T.Helper()
	c := tokenizer.Config{MaxQueued: tokenizer.DefaultMaxQueued}
	for _, f := range change {
		f(&c)
	}
	d := r.Deployment()
	s := &Replica{Service: tokenizer.New(d, c), D: d}
	r.Start(s)
	return s
}

// Unstarted is a tokenizer that the test starts, or does not.
func (r *Rig) Unstarted(d *deployment.Deployment) *Replica {
	return &Replica{Service: tokenizer.New(d, tokenizer.Config{MaxQueued: tokenizer.DefaultMaxQueued}), D: d}
}

// SeesAttention waits until a replica does.
func (r *Rig) SeesAttention(s *Replica) {
	r.T.Helper()
	r.Eventually("the replica sees attention", func() bool { return !probe.Lacks(s.Members().Snapshot(), "attention") })
}

// Start lets a replica run until the test ends, or drain is called, which takes as long
// as it needs.
func (r *Rig) Start(s *Replica) (drain func()) {
	r.T.Helper()
	if err := s.Start(r.T.Context()); err != nil {
		r.T.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			r.T.Error(err)
		}
	})
	r.T.Cleanup(stop)
	end := r.Run(s.Run)
	r.SeesAttention(s)
	return func() { end(); stop() }
}

// Hold keeps a replica busy with texts that begin so, until release is called.
func (r *Rig) Hold(s *Replica, prefix string) (release func()) {
	encode, gate := s.Model.EncodeText, make(chan struct{})
	s.Model.EncodeText = func(text string, special bool) ([]uint32, error) {
		if strings.HasPrefix(text, prefix) {
			<-gate
		}
		return encode(text, special)
	}
	release = sync.OnceFunc(func() { close(gate) })
	r.T.Cleanup(release)
	return release
}

// Ctx ends when the test has been patient.
func (r *Rig) Ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	r.T.Cleanup(cancel)
	return ctx
}

// Eventually waits for something.
func (r *Rig) Eventually(what string, cond func() bool) {
	r.T.Helper()
	testkit.Eventually(r.T, what, cond)
}

// Send publishes as a producer; the server has it when send returns.
func (r *Rig) Send(subject, reply string, body []byte, header nats.Header) {
	r.T.Helper()
	if err := r.NC.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: body, Header: header}); err != nil {
		r.T.Fatal(err)
	}
	if err := r.NC.Flush(); err != nil {
		r.T.Fatal(err)
	}
}
