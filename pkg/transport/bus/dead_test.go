package bus

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// deadQueue is a queue whose dead letters are kept.
func (r *rig) deadQueue(s schemas.Streams) *Queue {
	r.t.Helper()
	if err := r.conn.Ensure(r.ctx(), 1, s.Dead()); err != nil {
		r.t.Fatal(err)
	}
	q, err := r.conn.Queue(r.ctx(), QueueSettings{Stream: s.Sequences(), Name: "attention", Dead: s.Subjects.Dead("sequence"), Replica: "attention-1"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(q.Stop)
	return q
}

// letters are all dead letters, with their subjects.
func (r *rig) letters(s schemas.Streams) (subjects []string, letters []*pb.DeadLetter) {
	r.t.Helper()
	for from := uint64(1); ; {
		m, err := r.conn.Next(r.ctx(), s.Dead().Name, s.Subjects.AnyDead(), from)
		if errors.Is(err, ErrNoMessage) {
			return subjects, letters
		}
		l := &pb.DeadLetter{}
		if err := errors.Join(err, proto.Unmarshal(m.Data, l)); err != nil {
			r.t.Fatal(err)
		}
		subjects, letters, from = append(subjects, m.Subject), append(letters, l), m.Sequence+1
	}
}

// What is given up is kept with its headers, of which none has an effect where it
// is kept.
func TestBury(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.deadQueue(s)
	header := nats.Header{"Nats-Msg-Id": {"a"}, "Switchyard-Ask": {"x", "\xff"}}
	if _, err := r.conn.StoreBytes(r.ctx(), s.Subjects.Sequence(), []byte("body"), header); err != nil {
		t.Fatal(err)
	}
	d := r.pull(q, 1, 1)[0]
	// What a rollup does to a stream is known, so a queue would not take one.
	d.Headers.Set("Nats-Rollup", "all")
	d.Headers.Set("Nats-Expected-Last-Sequence", "77")
	if err := d.End(GiveUp(Refused, errors.New("nobody can"))); err != nil {
		t.Fatal(err)
	}
	subjects, letters := r.letters(s)
	if len(letters) != 1 || subjects[0] != "test.dlq.m.sequence.refused" {
		t.Fatalf("%v, %v", subjects, letters)
	}
	l := letters[0]
	if l.Stream != s.Sequences().Name || l.Subject != s.Subjects.Sequence() || l.Sequence != 1 || l.Deliveries != 1 ||
		l.Replica != "attention-1" || l.Error != "nobody can" || string(l.Body) != "body" || l.CutFrom != 0 {
		t.Errorf("%v", l)
	}
	if i := slices.IndexFunc(l.Headers, func(h *pb.DeadHeader) bool { return string(h.Name) == "Switchyard-Ask" }); i < 0 || string(l.Headers[i].Values[1]) != "\xff" {
		t.Errorf("headers %v", l.Headers)
	}
	if n := r.obs.buried.Load(); n != 1 {
		t.Errorf("%d counted", n)
	}
	testkit.Eventually(t, "it is settled", func() bool { return r.unsettled(s) == 0 })
}

// Every way to give a delivery up says why.
func TestBuryReasons(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.deadQueue(s)
	for _, tc := range []struct {
		do   func() error
		want Reason
	}{
		{func() error { return Poison(errors.New("unreadable")) }, Unreadable},
		{func() error { panic("index out of range") }, Panicked},
		{func() error { return &TooLargeError{Size: 2, Limit: 1} }, Refused},
	} {
		if _, err := r.conn.StoreBytes(r.ctx(), s.Subjects.Sequence(), []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
		if err := r.pull(q, 1, 1)[0].Work(r.ctx(), tc.do); err != nil {
			t.Fatal(err)
		}
		subjects, _ := r.letters(s)
		if got := subjects[len(subjects)-1]; got != "test.dlq.m.sequence."+string(tc.want) {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// A delivery is given up though its letter cannot be kept.
func TestBuryWithoutStream(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.deadQueue(s)
	if err := r.conn.js.DeleteStream(r.ctx(), s.Dead().Name); err != nil {
		t.Fatal(err)
	}
	r.store(s, 1)
	d := r.pull(q, 1, 1)[0]
	ctx, cancel := context.WithTimeout(r.ctx(), 50*time.Millisecond)
	defer cancel()
	d.buryUntil(ctx, Refused, errors.New("no"))
	if n := r.obs.buried.Load(); n != 0 {
		t.Errorf("%d counted", n)
	}
}

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		name        string
		body, limit int
		kept        int // -1: all
	}{
		{"small", 100, 1000, -1},
		{"large", 1000, 500, 0},
		{"nothing fits", 1000, 3, 0},
	} {
		l := &pb.DeadLetter{Version: 2, Error: strings.Repeat("e", 50), Body: make([]byte, tc.body)}
		fit(l, int64(tc.limit))
		switch size := proto.Size(l); {
		case tc.kept == -1 && (len(l.Body) != tc.body || l.CutFrom != 0):
			t.Errorf("%s: %v", tc.name, l)
		case tc.kept != -1 && (l.CutFrom != uint64(tc.body) || len(l.Body) > 0 && size > tc.limit):
			t.Errorf("%s: %d bytes of %d, cut from %d", tc.name, size, tc.limit, l.CutFrom)
		}
	}
}

// Nobody fills the store with what cannot be read, nor a letter with its words.
func TestLetterIsBounded(t *testing.T) {
	d := &Delivery{Data: make([]byte, 1<<20), Subject: "a.\xff", queue: &QueueSettings{}}
	l := d.letter(Unreadable, errors.New(strings.Repeat("ä", maxDeadError)))
	if len(l.Body) != maxUnreadable || l.CutFrom != 1<<20 || len(l.Error) > maxDeadError {
		t.Errorf("%d bytes, cut from %d, %d of error", len(l.Body), l.CutFrom, len(l.Error))
	}
	if _, err := proto.Marshal(l); err != nil {
		t.Error(err)
	}
}

// A stream of dead letters that is full lets the oldest go.
func TestDeadStreamTakesAll(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	spec := s.Dead()
	spec.MaxPerSubject = 2
	if err := r.conn.Ensure(r.ctx(), 1, spec); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := r.conn.StoreBytes(r.ctx(), s.Subjects.Dead("prompt")+".panic", []byte{byte(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	state, err := r.conn.State(r.ctx(), spec.Name)
	if err != nil || state.Last != 5 || state.First != 4 {
		t.Errorf("%+v, %v", state, err)
	}
}

// Of what cannot be read as much is kept in a minute as the stream holds, whoever sends it.
func TestUnreadableLettersAreBounded(t *testing.T) {
	var l letters
	now := time.Now()
	for i := range 2 * schemas.MaxDead {
		if got, want := l.take(now.Add(time.Duration(i)*time.Millisecond)), i < schemas.MaxDead; got != want {
			t.Fatalf("letter %d: %v", i, got)
		}
	}
	if !l.take(now.Add(time.Minute)) {
		t.Error("none is kept in the next minute")
	}
}

// Messages that cannot be read are given up without a letter when enough have one.
func TestGivenUpWithoutALetter(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.deadQueue(s)
	q.letters = letters{began: time.Now(), kept: schemas.MaxDead}
	r.store(s, 2)
	for _, d := range r.pull(q, 2, 2) {
		if err := d.End(Poison(errors.New("no sequence"))); err != nil {
			t.Fatal(err)
		}
	}
	if _, kept := r.letters(s); len(kept) != 0 || r.obs.buried.Load() != 2 {
		t.Errorf("%d letters, %d counted", len(kept), r.obs.buried.Load())
	}
}
