package rig

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Opened waits until a request's log is there.
func (r *Rig) Opened(request string) *pb.Accept {
	r.T.Helper()
	var accept *pb.Accept
	r.Eventually("the acceptance of "+request, func() bool {
		a, err := r.Log.Opening(r.Ctx(), request)
		accept = a
		return err == nil
	})
	return accept
}

// Claim makes the test the owner of a request.
func (r *Rig) Claim(request string) *tokenlog.Writer {
	r.T.Helper()
	w, _, err := r.Log.Claim(r.Ctx(), request, r.Opened(request), tokenlog.WriterSettings{})
	if err != nil {
		r.T.Fatal(err)
	}
	return w
}

// Append writes records, and waits until they are stored.
func (r *Rig) Append(w *tokenlog.Writer, records ...*pb.Record) {
	r.T.Helper()
	for _, rec := range records {
		if err := w.Append(rec); err != nil {
			r.T.Fatal(err)
		}
	}
	if err := w.Flush(r.Ctx()); err != nil {
		r.T.Fatal(err)
	}
}

// Terminal is the end of a request, nil if it has none.
func (r *Rig) Terminal(request string) *pb.Terminal {
	all, _, err := r.Log.Read(r.Ctx(), request, math.MaxUint64)
	if err != nil || len(all) == 0 {
		return nil
	}
	return all[len(all)-1].Record.GetTerminal()
}

// Token is a record of a token.
func Token(i int) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: int32(i), Id: uint32(300 + i)}}}
}

// Ending is a record of an end.
func Ending(reason string) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: reason}}}
}

// Raw writes protocol that no client library would, and waits until the server
// has it.
func (r *Rig) Raw(lines string) {
	r.T.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.Ctx(), "tcp", strings.TrimPrefix(r.Srv.URL(), "nats://"))
	if err != nil {
		r.T.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\n" + lines + "PING\r\n")); err != nil {
		r.T.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			r.T.Fatalf("the server: %v", err)
		}
		if strings.HasPrefix(line, "PONG") {
			return
		}
	}
}

// Prompt stores a prompt as a producer does.
func (r *Rig) Prompt(body string) {
	r.T.Helper()
	if _, err := r.D.Conn.JetStream().Publish(r.Ctx(), r.D.Subjects.Prompt(), []byte(body)); err != nil {
		r.T.Fatal(err)
	}
}

// Alter changes a stream's settings.
func (r *Rig) Alter(stream string, change func(*jetstream.StreamConfig)) {
	r.T.Helper()
	js := r.D.Conn.JetStream()
	s, err := js.Stream(r.Ctx(), stream)
	if err != nil {
		r.T.Fatal(err)
	}
	config := s.CachedInfo().Config
	change(&config)
	if _, err := js.UpdateStream(r.Ctx(), config); err != nil {
		r.T.Fatal(err)
	}
}

// Settled says that no prompt is left.
func (r *Rig) Settled() bool {
	s, err := r.D.Conn.JetStream().Stream(r.Ctx(), r.D.Streams.Prompts().Name)
	return err == nil && s.CachedInfo().State.Msgs == 0
}

// Metrics is what a replica's page of metrics says.
func (r *Rig) Metrics(s *Replica) string {
	page := httptest.NewRecorder()
	s.D.Telemetry.Handler().ServeHTTP(page, httptest.NewRequestWithContext(r.T.Context(), "GET", "/metrics", nil))
	return page.Body.String()
}

// PromptOf sends a tenant's prompt and returns who gets its answer.
func (r *Rig) PromptOf(tenant, id, rest string) *Reader {
	r.T.Helper()
	got := r.Inbox()
	body := fmt.Sprintf(`{"request_id":%q,"text":"hi"%s}`, id, rest)
	f := schemas.Flow{Tenant: tenant, Class: schemas.ClassNormal}
	r.Send(r.D.Subjects.PromptOf(f), "", []byte(body), nats.Header{schemas.HeaderReplyTo: {got.Subject}})
	return got
}

// Settle waits until the service has handled what was sent before: it answers
// an ask of each kind in order of arrival.
func (r *Rig) Settle() {
	r.T.Helper()
	for _, subject := range []string{r.D.Subjects.Replay(), "switchyard.ask.nosuch2", "switchyard.prompt.nosuch2", "switchyard.ask.demo"} {
		last := r.Inbox()
		r.Send(subject, last.Subject, []byte("{"), nil)
		r.Eventually("the answer to the last message of "+subject, func() bool { return len(last.All()) > 0 })
	}
}

// Counter is the value of one of a replica's counters.
func (r *Rig) Counter(s *Replica, suffix string) float64 {
	r.T.Helper()
	families, err := s.D.Telemetry.Registry.Gather()
	if err != nil {
		r.T.Fatal(err)
	}
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), suffix) {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	r.T.Fatalf("there is no metric %s", suffix)
	return 0
}

// Join has a service among the members until leave is called.
func (r *Rig) Join(service string) (leave func()) {
	p := r.D.NewPresence(service+"-1", service)
	p.SetReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Announce(ctx) }()
	leave = func() { cancel(); <-done }
	r.T.Cleanup(leave)
	return leave
}

// CanaryOf is the canary that a replica waits for, as it says itself; "": it says of none.
func CanaryOf(s *Replica) (id string) {
	if err := s.Ready(); err != nil {
		if found := canaryID.FindStringSubmatch(err.Error()); found != nil {
			return found[1]
		}
	}
	return ""
}

var canaryID = regexp.MustCompile(`request (canary-\S+) waits since`)

// Canary waits for the canary of a replica.
func (r *Rig) Canary(s *Replica) (id string) {
	r.T.Helper()
	r.Eventually("a canary", func() bool { id = CanaryOf(s); return id != "" })
	return id
}

// AskBody asks for an answer under the id "one".
const AskBody = `{"request_id":"one","text":"hi","max_tokens":400}`

// Reader is one that waits for an answer in JSON or protobuf.
type Reader struct {
	R       *Rig
	Subject string
	sub     *nats.Subscription

	mu   sync.Mutex
	msgs []*nats.Msg
}

func (g *Reader) take(m *nats.Msg) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.msgs = append(g.msgs, m)
}

// All is what has come.
func (g *Reader) All() []*nats.Msg {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*nats.Msg(nil), g.msgs...)
}

// Chunks are all that have come.
func (g *Reader) Chunks() (out []*pb.Chunk) {
	for _, m := range g.All() {
		c := &pb.Chunk{}
		if m.Header.Get(schemas.HeaderContentType) == schemas.ContentProtobuf {
			_ = proto.Unmarshal(m.Data, c)
		} else {
			_ = protojson.Unmarshal(m.Data, c)
		}
		out = append(out, c)
	}
	return out
}

// Ends are the chunks that end an answer.
func (g *Reader) Ends() (out []*pb.Chunk) {
	for _, c := range g.Chunks() {
		if c.FinishReason != "" {
			out = append(out, c)
		}
	}
	return out
}

// End waits for the first end.
func (g *Reader) End() *pb.Chunk {
	g.R.T.Helper()
	g.R.Eventually("an end on "+g.Subject, func() bool { return len(g.Ends()) > 0 })
	return g.Ends()[0]
}

// Leave ends the reader's interest.
func (g *Reader) Leave() {
	g.R.T.Helper()
	_ = g.sub.Unsubscribe()
	if err := g.R.NC.Flush(); err != nil {
		g.R.T.Fatal(err)
	}
}

// Inbox waits at an inbox of its own.
func (r *Rig) Inbox() *Reader { return r.Listen(r.NC.NewInbox()) }

// Listen collects what comes to a subject.
func (r *Rig) Listen(subject string) *Reader {
	r.T.Helper()
	got := &Reader{R: r, Subject: subject}
	sub, err := r.NC.Subscribe(subject, got.take)
	if err != nil {
		r.T.Fatal(err)
	}
	got.sub = sub
	if err := r.NC.Flush(); err != nil {
		r.T.Fatal(err)
	}
	return got
}
