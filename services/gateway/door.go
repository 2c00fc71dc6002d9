package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// DoorSettings are what requests are answered with.
type DoorSettings struct {
	Config
	Upstream  upstream.Interface
	Telemetry *telemetry.Telemetry
	Replica   string
	Logger    *slog.Logger
}

// Door answers HTTP requests.
type Door struct {
	DoorSettings
	keys     *keys
	access   *accessLog
	streams  *admission.Portions
	bodies   *admission.Portions // in bytes
	reading  *admission.Portions // in bodies
	tracer   *telemetry.Tracer
	metrics  *telemetry.GatewayMetrics
	unfollow []func()
	handler  http.Handler
	quiet    time.Duration // as quietFirst but in tests
	draining atomic.Bool

	// cutting ends what is under way, with errDraining.
	cutting context.Context
	end     context.CancelCauseFunc
}

// quietFirst is how long a client that waits for a stream hears nothing at most: then it begins,
// without a token, and what fails afterwards has no status of its own.
const quietFirst = 5 * time.Second

var errDraining = errors.New("the gateway stops")

// NewDoor returns what answers requests once it is open: until then it knows no API key.
func NewDoor(s DoorSettings) *Door {
	d := &Door{
		DoorSettings: s, keys: &keys{file: s.Keys}, access: &accessLog{path: s.AccessLog, log: s.Logger}, tracer: s.Telemetry.Tracer("gateway", s.Replica), quiet: quietFirst,
		streams: admission.NewPortions(int64(s.MaxStreams)), bodies: admission.NewPortions(max(bodyBytes, bodiesOf*s.MaxBody)), reading: admission.NewPortions(int64(s.MaxConns)),
	}
	d.metrics = s.Telemetry.Gateway()
	d.followLoads()
	d.cutting, d.end = context.WithCancelCause(context.Background())
	d.handler = d.timed(d.guardPages(d.routes()))
	return d
}

// Open reads the API keys, and opens the access log.
func (d *Door) Open() error { return errors.Join(d.keys.load(), d.access.open()) }

const (
	// headerWithin and mostHeader bound a request's headers, idleFor a connection without one. Until
	// its headers have come a connection counts as idle.
	headerWithin, mostHeader, idleFor = 5 * time.Second, 32 << 10, 2 * time.Minute
)

// server serves the door.
func (d *Door) server() *http.Server {
	return &http.Server{
		Handler: d.handler, ReadHeaderTimeout: headerWithin, MaxHeaderBytes: mostHeader, IdleTimeout: idleFor,
		ConnContext: withConn, ConnState: noteState,
		BaseContext: func(net.Listener) context.Context { return d.cutting },
		ErrorLog:    slog.NewLogLogger(d.Logger.Handler(), slog.LevelDebug), // what clients do wrong
	}
}

// ServeHTTP answers a request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// Ready says why no model could be asked.
func (d *Door) Ready() error {
	if d.draining.Load() {
		return errDraining
	}
	return d.Upstream.Ready()
}

func (d *Door) drain() { d.draining.Store(true) }

// followLoads shows what tokenizers say of their models.
func (d *Door) followLoads() {
	for of, value := range map[*telemetry.Table]func(upstream.Model) float64{
		d.metrics.Running: func(m upstream.Model) float64 { return m.Running },
		d.metrics.Waiting: func(m upstream.Model) float64 { return m.Waiting },
		d.metrics.KVUsed:  func(m upstream.Model) float64 { return m.KVUsed },
	} {
		d.unfollow = append(d.unfollow, of.Follow(func() (all []telemetry.Reading) {
			for _, m := range d.Upstream.Models() {
				all = append(all, telemetry.Reading{Labels: []string{m.Name}, Value: value(m)})
			}
			return all
		}))
	}
}

// cut ends what is under way.
func (d *Door) cut() { d.end(errDraining) }

// sharer is among whom a call's client shares: tenants. Where there are no keys, all are one.
func (d *Door) sharer(c *call) string {
	if d.keys.file == "" {
		return ""
	}
	return c.flow.Tenant
}

// enter takes places for answers that can be given; leave gives them back. Each is taken by itself:
// so a tenant has its share of them at most.
func (d *Door) enter(c *call, answers int) (leave func(), err error) {
	who, most, of := d.sharer(c), d.MaxStreams, ""
	if who != "" {
		most, of = max(1, most/2), ", at most half of them of one tenant"
	}
	switch {
	case d.draining.Load():
		return nil, &client.Error{Code: client.CodeModelNotReady, Message: "this gateway stops; ask again, another one answers"}
	case answers > most:
		return nil, openai.Bad("n", "%d answers are asked for; this gateway has at most %d under way at a time%s (--http-max-streams)", answers, d.MaxStreams, of)
	}
	for taken := range answers {
		if !d.streams.Take(who, 1) {
			d.streams.Give(who, int64(taken))
			return nil, &client.Error{Code: client.CodeOverloaded, RetryAfter: time.Second, Message: fmt.Sprintf("%d answers may be under way at this gateway at a time%s, and less while many ask (--http-max-streams)", d.MaxStreams, of)}
		}
	}
	d.metrics.Open(answers)
	return func() { d.metrics.Open(-answers); d.streams.Give(who, int64(answers)) }, nil
}

// refusal is an error as the client gets it.
func (d *Door) refusal(ctx context.Context, err error, tokens int) *openai.Error {
	var of *client.Error
	if errors.As(err, &of) && of.Code == client.CodeCancelled && errors.Is(context.Cause(ctx), errDraining) {
		return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.ServerError, Code: client.CodeModelNotReady, Message: "this gateway stopped before the answer was whole; ask again", RetryAfter: time.Second}
	}
	if errors.As(err, new(*openai.Error)) {
		return openai.ErrorOf(err, tokens)
	}
	names, _ := ctx.Value(namesKey{}).(map[string]string)
	e := openai.ErrorFor(err, tokens, names)
	if c, is := ctx.Value(callKey{}).(*call); is && e.Status == http.StatusInternalServerError {
		d.Logger.Error("a request met a fault", "request", c.id, "error", err)
		return openai.Fault(c.id) // the error may name files and servers
	}
	return e
}

// Keys of a request's context: what withNames notes, and the call.
type (
	namesKey struct{}
	callKey  struct{}
)

// withNames notes what a request's route calls fields that the services name otherwise.
func withNames(ctx context.Context, names map[string]string) context.Context {
	return context.WithValue(ctx, namesKey{}, names)
}
