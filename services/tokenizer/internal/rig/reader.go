package rig

import (
	"sync"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

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
