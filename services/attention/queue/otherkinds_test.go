package queue

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// abroad is a request that replicas of another kind have accepted, and what there is
// of them beside a replica of this one.
type abroad struct {
	*reception
	t      *testing.T
	d      *deployment.Deployment
	id     *pb.Identity
	accept *pb.Accept
	theirs *tokenlog.Log
}

func newAbroad(t *testing.T, change func(*pb.Identity)) *abroad {
	t.Helper()
	d := testdeployment.Open(t)
	id := &pb.Identity{Version: schemas.Version, Model: d.Identity.Model}
	change(id)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	view, err := d.NewPresence("attention-1", "attention").Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{Deployment: d, Replica: "attention-1", Log: tokenlog.Of(d, "attention-1"), Members: view, Engine: &fakeEngine{}}
	a := &abroad{reception: New(s).reception, t: t, d: d, id: id}
	a.accept = &pb.Accept{Identity: id, PromptSequence: 1, ReplyTo: "inbox", PromptTokens: 2, MaxTokens: 1}
	a.theirs = tokenlog.New(d.Conn, d.Streams, tokenlog.Settings{Rules: tokenlog.Rules{
		Model: id.Model, Version: id.Version, Vocab: 9, Positions: 9,
	}, Writer: "attention-2"})
	a.settler.kin.within = 300 * time.Millisecond
	return a
}

// accepted opens the log, as replicas of a kind do.
func (a *abroad) accepted(by *tokenlog.Log, id *pb.Identity) {
	a.t.Helper()
	accept := proto.CloneOf(a.accept)
	accept.Identity = id
	if _, err := by.AcceptAnew(a.t.Context(), "r", accept); err != nil {
		a.t.Fatal(err)
	}
}

// claimed has one of theirs write to the log.
func (a *abroad) claimed(records ...*pb.Record) {
	a.t.Helper()
	w, _, err := a.theirs.Claim(a.t.Context(), "r", a.accept, tokenlog.WriterSettings{})
	for _, r := range records {
		err = errors.Join(err, w.Append(r))
	}
	if err = errors.Join(err, w.Flush(a.t.Context())); err != nil {
		a.t.Fatal(err)
	}
}

// here announces a replica of theirs until the test ends.
func (a *abroad) here() {
	k := a.d.Kind()
	m := &pb.Member{
		Id: "attention-2", Service: "attention", ModelHash: a.id.Model, NumericClass: k.NumericClass, Wire: k.Wire,
		SchemaVersion: a.id.Version, Ready: true,
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = members.Announce(ctx, a.d.Members, func() *pb.Member { return m }, members.Interval, nil)
	}()
	a.t.Cleanup(func() { stop(); <-done })
}

// settled is what becomes of the request's sequence.
func (a *abroad) settled() error {
	a.t.Helper()
	body, err := proto.Marshal(&pb.Sequence{Identity: a.id, RequestId: "r", PromptIds: []uint32{1, 2}, MaxTokens: 1, Accept: a.accept})
	if err != nil {
		a.t.Fatal(err)
	}
	err = a.checks.read(&bus.Delivery{Data: body, Delivered: 1}, &arrival{})
	var foreign *foreignError
	if !errors.As(err, &foreign) {
		a.t.Fatalf("read as %v", err)
	}
	return a.settler.unadmitted(a.t.Context(), err)
}

// ours is what replicas of this kind read in the log.
func (a *abroad) ours() (all []*pb.Record) {
	a.t.Helper()
	history, _, err := a.log.Read(a.t.Context(), "r", math.MaxUint64)
	if err != nil && !errors.Is(err, tokenlog.ErrUnknown) {
		a.t.Fatal(err)
	}
	for _, e := range history {
		all = append(all, e.Record)
	}
	return all
}

var (
	newerVersion = func(id *pb.Identity) { id.Version++ }
	otherModel   = func(id *pb.Identity) { id.Model ^= 0xff }
)

// A sequence that replicas of another version or model have accepted goes back to them
// while they are here. Else its producer is told, by an error that names both; and
// nobody is told of one that has ended, or that was accepted again.
func TestForeignSequences(t *testing.T) {
	token := &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Id: 1}}}
	length := &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: "length"}}}
	for _, tc := range []struct {
		name   string
		change func(*pb.Identity)
		is     func(a *abroad)
		back   bool
		says   string // the end that is written here; empty: none
	}{
		{"its kind is here", otherModel, func(a *abroad) { a.accepted(a.theirs, a.id); a.here() }, true, ""},
		{"its version is here", newerVersion, func(a *abroad) { a.accepted(a.theirs, a.id); a.here() }, true, ""},
		{"waiting, of another model", otherModel, func(a *abroad) { a.accepted(a.theirs, a.id) }, false, "is served here"},
		{"waiting, of a newer version", newerVersion, func(a *abroad) { a.accepted(a.theirs, a.id) }, false, "schema version 3, and version 2 is spoken here"},
		{"under way", otherModel, func(a *abroad) { a.accepted(a.theirs, a.id); a.claimed() }, false, "is served here"},
		{"its log is gone", otherModel, func(*abroad) {}, false, "is served here"},
		{"ended", otherModel, func(a *abroad) { a.accepted(a.theirs, a.id); a.claimed(token, length) }, false, ""},
		{"accepted again", otherModel, func(a *abroad) {
			a.accepted(a.theirs, a.id)
			a.accepted(a.log, &pb.Identity{Version: schemas.Version, Model: a.d.Identity.Model})
		}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := newAbroad(t, tc.change)
			tc.is(a)
			if tc.back {
				a.settler.kin.within = testkit.Patience
			}
			if err := a.settled(); errors.Is(err, errElsewhere) != tc.back || !tc.back && err != nil {
				t.Fatalf("settled with %v", err)
			}
			a.checkEnd(tc.says)
			if tc.says == "" {
				return
			}
			if err := a.settled(); err != nil { // its acknowledgement was lost
				t.Errorf("settled again with %v", err)
			}
			a.checkEnd(tc.says)
		})
	}
}

func (a *abroad) checkEnd(says string) {
	a.t.Helper()
	var accepts []*pb.Accept
	var ends []*pb.Terminal
	for _, r := range a.ours() {
		if r.GetAccept() != nil {
			accepts = append(accepts, r.GetAccept())
		} else if end := r.GetTerminal(); end != nil && end.FinishReason != "length" { // which is theirs
			ends = append(ends, end)
		}
	}
	switch {
	case says == "" && len(ends) > 0:
		a.t.Errorf("ended here: %v", ends)
	case says == "":
	case len(accepts) != 1 || !accepts[0].Lost || accepts[0].ReplyTo != "inbox" || len(ends) != 1:
		a.t.Errorf("acceptances %v, ends %v", accepts, ends)
	case ends[0].Error.GetCode() != "model_not_ready" || !strings.Contains(ends[0].Error.Message, says):
		a.t.Errorf("ended in %v", ends[0])
	}
}

// Few sequences wait for replicas of their kind; the others come again.
func TestForeignSequencesAreBounded(t *testing.T) {
	k := &kin{foreign: make(chan struct{}, 1)}
	k.foreign <- struct{}{}
	if err := k.settle(t.Context(), &foreignError{}); !errors.Is(err, errElsewhere) {
		t.Errorf("settled with %v", err)
	}
}
