package delivery_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// brake is an observer that holds a replica behind a chunk.
type brake struct {
	bus.Observer
	at      int // chunks
	reached chan struct{}
	release chan struct{}

	mu   sync.Mutex
	sent int
}

func (b *brake) Published(subject string, bytes int) {
	b.Observer.Published(subject, bytes)
	if !strings.HasPrefix(subject, schemas.DefaultInboxPrefix) {
		return
	}
	b.mu.Lock()
	b.sent++
	now := b.sent == b.at
	b.mu.Unlock()
	if now {
		close(b.reached)
		<-b.release
	}
}

// leaving is a replica that is held behind a chunk, to be stopped there.
type leaving struct {
	*rig.Replica
	R       *rig.Rig
	brake   *brake
	drain   func()
	release func()
}

// leaving starts a replica that stops behind so many chunks; 0: it is not held.
func newLeaving(r *rig.Rig, chunks int) *leaving {
	r.T.Helper()
	b := &brake{at: chunks, reached: make(chan struct{}), release: make(chan struct{})}
	r.Observe = func(o bus.Observer) bus.Observer { b.Observer = o; return b }
	l := &leaving{Replica: r.Unstarted(r.Deployment()), R: r, brake: b}
	r.Observe = nil
	l.drain, l.release = r.Start(l.Replica), sync.OnceFunc(func() { close(b.release) })
	r.T.Cleanup(l.release)
	return l
}

// goes stops the replica where it is held.
func (l *leaving) goes() {
	l.R.T.Helper()
	gone := make(chan struct{})
	go func() { defer close(gone); l.drain() }()
	l.R.Eventually("the replica stops", func() bool { return l.Delivery.Stopping() })
	l.release()
	<-gone
}

// sentBy are the indices of the chunks that a replica has replayed to a reader.
func sentBy(g *rig.Reader, s *rig.Replica) (indices []int32) {
	for i, m := range g.All() {
		if strings.HasPrefix(m.Reply, strings.TrimSuffix(g.R.D.Subjects.AnyProbe(s.Name()), "*.*")) {
			indices = append(indices, g.Chunks()[i].Index)
		}
	}
	return indices
}

func upTo(from, before int32) (all []int32) {
	for i := from; i < before; i++ {
		all = append(all, i)
	}
	return all
}

// A reader in the middle of a replay whose tokenizer stops gets the rest from another one,
// each chunk once, and asks nobody again.
func TestReplayIsHandedOn(t *testing.T) {
	t.Parallel()
	const sent, logged, all = 60, 100, 110
	r := rig.New(t, 0)
	first := newLeaving(r, sent)
	w := beginRunning(r, logged)
	asked, got := r.Listen(r.D.Subjects.Replay()), r.Listen(schemas.DefaultInboxPrefix+">")
	answer, err := client.New(r.NC, client.Settings{Silence: time.Hour}).Resume(r.Ctx(), "one", 0)
	if err != nil {
		t.Fatal(err)
	}
	<-first.brake.reached
	second := r.Replica()
	first.goes()
	for i := logged; i < all; i++ {
		r.Append(w, rig.Token(i))
	}
	r.Append(w, rig.Ending("stop"))
	var indices []int32
	for c, err := range answer.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		indices = append(indices, c.Index)
	}
	if !slices.Equal(indices, upTo(0, all+1)) {
		t.Errorf("the reader has %v", indices)
	}
	before := sentBy(got, first.Replica)
	if len(before) < sent || !slices.Equal(append(before, sentBy(got, second)...), upTo(0, all)) {
		t.Errorf("the first sent %v, the second %v", before, sentBy(got, second))
	}
	if n := len(asked.All()); n != 1 {
		t.Errorf("the reader asked %d times", n)
	}
}

// handedBy are the streams that a replica has handed on, by their readers.
func handedBy(g *rig.Reader, by *rig.Replica) map[string]delivery.Handed {
	g.R.T.Helper()
	for _, nc := range []*nats.Conn{by.D.Conn.NATS(), g.R.NC} {
		if err := nc.Flush(); err != nil {
			g.R.T.Fatal(err)
		}
	}
	all := map[string]delivery.Handed{}
	for _, m := range g.All() {
		h := delivery.Handed{}
		if err := json.Unmarshal(m.Data, &h); err != nil {
			g.R.T.Fatal(err)
		}
		all[h.Subject] = h
	}
	return all
}

// What a replica that stops says of its streams: how far each was sent, where it may go,
// whether it keeps its request alive, and up to where it goes beside another one. Who is
// gone, or has had everything, is none of them.
func TestWhatIsHandedOn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := newLeaving(r, 0)
	const body = `{"request_id":"one","text":"hi","max_tokens":400`
	producer, text := r.Inbox(), r.Listen("answers.one")
	r.Prompt(body + `,"reply_to":"` + producer.Subject + `"}`)
	w := r.Claim("one")
	r.Append(w, rig.Token(0), rig.Token(1), rig.Token(2))
	last, err := r.Log.Last(r.Ctx(), "one")
	if err != nil {
		t.Fatal(err)
	}
	said := r.Listen(r.D.Subjects.AnyInterest(delivery.InterestHanded))
	whole, late, asked, gone := r.Inbox(), r.Inbox(), r.Inbox(), r.Inbox()
	askReplay(r, whole, 0)
	askReplay(r, late, 9)
	askReplay(r, gone, 0)
	r.Send(r.D.Subjects.Ask(), asked.Subject, []byte(body+"}"), nil)
	r.Prompt(body + `,"reply_to":"` + text.Subject + `"}`)
	askReplay(r, producer, 0)
	for _, g := range []*rig.Reader{whole, asked, gone, text} {
		r.Eventually("all chunks", func() bool { return len(g.Chunks()) == 3 })
	}
	r.Eventually("the producer's repeat has ended", func() bool { return len(producer.Chunks()) == 6 && s.Delivery.Replays.Open() == 5 })
	gone.Leave()
	r.Append(w, rig.Token(3))
	r.Eventually("one is gone", func() bool { return s.Delivery.Replays.Open() == 4 })
	for _, g := range []*rig.Reader{whole, asked, text} {
		r.Eventually("all chunks", func() bool { return len(g.Chunks()) == 4 })
	}
	s.drain()
	r.Eventually("four are handed on", func() bool { return len(handedBy(said, s.Replica)) >= 4 })
	got := handedBy(said, s.Replica)
	if len(got) != 4 {
		t.Errorf("%d were handed on: %v", len(got), got)
	}
	for g, want := range map[*rig.Reader]delivery.Handed{
		whole: {From: 4}, late: {From: 9}, asked: {From: 4, Asked: true}, text: {From: 4, Named: true},
	} {
		h := got[g.Subject]
		want.Subject, want.Turn, want.Encoding = g.Subject, h.Turn, h.Encoding
		want.Until = last
		if h != want || h.Turn == 0 {
			t.Errorf("handed on as %+v, want %+v", h, want)
		}
	}
}

// handTo hands a stream of request one to whoever is there, as who stops would.
func handTo(r *rig.Rig, h delivery.Handed) {
	r.T.Helper()
	body, err := json.Marshal(h)
	if err != nil {
		r.T.Fatal(err)
	}
	tell(r, r.D.Subjects.Interest(delivery.InterestHanded, "one"), body)
}

// tell says what another tokenizer would.
func tell(r *rig.Rig, subject string, body []byte) {
	r.T.Helper()
	m := bus.Told(subject, body)
	r.Send(m.Subject, "", m.Data, m.Header)
}

// A stream that is handed on goes on with the next chunk, scores too, and ends where its
// reader has another one; what a replay would not be begun for is not gone on with.
func TestGoingOn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	producer := r.Inbox()
	r.Prompt(`{"request_id":"one","input_ids":[1,2],"max_tokens":400,"score":"logprobs","reply_to":"` + producer.Subject + `"}`)
	w := r.Claim("one")
	for p := range int32(2) {
		r.Append(w, &pb.Record{Kind: &pb.Record_Score{Score: &pb.Score{Position: p}}})
	}
	r.Append(w, rig.Token(0))
	until, err := r.Log.Last(r.Ctx(), "one")
	if err != nil {
		t.Fatal(err)
	}
	r.Append(w, rig.Token(1), rig.Token(2))
	r.Eventually("the producer's chunks", func() bool { return len(producer.Chunks()) == 5 })
	const turn = 1 << 60
	bad := []delivery.Handed{
		{Subject: "$KV.vault.key"}, {Subject: "$KV.vault.key", Named: true}, {Subject: "answers.one"}, {Subject: r.D.Subjects.Cancel("one"), Named: true},
		{Subject: "_INBOX.x", Encoding: 9}, {Subject: ""}, {Subject: "_INBOX." + strings.Repeat("x", delivery.MaxHanded)},
	}
	for _, h := range bad {
		h.Turn = turn
		handTo(r, h)
	}
	for _, turn := range []int64{0, -1, delivery.MaxTurn + 1} {
		handTo(r, delivery.Handed{Subject: "_INBOX.x", Turn: turn})
	}
	for request, body := range map[string]string{"one": `{"stream":"S","seq":1}`, "*": `{"subject":"_INBOX.x","turn":1}`} {
		subject := r.D.Subjects.Interest(delivery.InterestHanded, request)
		header := fmt.Sprintf("NATS/1.0\r\n%s: %s\r\n\r\n", schemas.HeaderTold, subject)
		r.Raw(fmt.Sprintf("HPUB %s %d %d\r\n%s%s\r\n", subject, len(header), len(header)+len(body), header, body))
	}
	all := r.Listen(">")
	expected := map[*rig.Reader][]int32{}
	for _, c := range []struct {
		delivery.Handed
		to   *rig.Reader
		want []int32
	}{
		{delivery.Handed{From: delivery.Beginning(0)}, r.Inbox(), []int32{-2, -1, 0, 1, 2, 3}},
		{delivery.Handed{From: -1}, r.Inbox(), []int32{-1, 0, 1, 2, 3}},
		{delivery.Handed{From: 0, Asked: true}, r.Inbox(), []int32{0, 1, 2, 3}},
		{delivery.Handed{From: 2, Named: true}, r.Listen("answers.two"), []int32{2, 3}},
		{delivery.Handed{From: 3, Encoding: pb.Encoding_ENCODING_PROTOBUF}, r.Inbox(), []int32{3}},
		{delivery.Handed{From: -1, Until: until}, producer, []int32{-1, 0}},
	} {
		c.Subject, c.Turn = c.to.Subject, turn
		handTo(r, c.Handed)
		expected[c.to] = c.want
	}
	r.Eventually("all are gone on with", func() bool { return s.Delivery.Replays.Open() == 5 && len(producer.Chunks()) == 7 })
	if !s.Delivery.Replays.Asked("one") {
		t.Error("nobody keeps the request alive")
	}
	r.Append(w, rig.Token(3), rig.Ending("stop"))
	for g, want := range expected {
		if g != producer {
			g.End()
		}
		if got := sentBy(g, s); !slices.Equal(got, want) {
			t.Errorf("%s got %v, want %v", g.Subject, got, want)
		}
	}
	for _, m := range all.All() {
		if slices.ContainsFunc(bad, func(h delivery.Handed) bool { return h.Subject == m.Subject }) || m.Subject == "_INBOX.x" {
			t.Errorf("%s got %q", m.Subject, m.Data)
		}
	}
}

// Replicas that stop together hand a stream on once each at most; the reader asks again,
// and whoever is there then serves him.
func TestHandedOnByTheLast(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	leaving := []*leaving{newLeaving(r, 0), newLeaving(r, 0)}
	w := beginRunning(r, 2)
	got := r.Inbox()
	said := r.Listen(r.D.Subjects.AnyInterest(delivery.InterestHanded))
	askReplay(r, got, 0)
	r.Eventually("two chunks", func() bool { return len(got.Chunks()) == 2 })
	var gone sync.WaitGroup
	for _, l := range leaving {
		gone.Go(l.drain)
	}
	gone.Wait()
	for _, l := range leaving {
		r.Eventually("it is handed on", func() bool { return len(handedBy(said, l.Replica)) > 0 })
		if n := l.Delivery.Replays.Open(); n > 0 {
			t.Errorf("%s has %d left", l.Name(), n)
		}
	}
	if n := len(said.All()); n > len(leaving) {
		t.Errorf("handed on %d times", n)
	}
	r.Replica()
	r.Append(w, rig.Token(2), rig.Ending("stop"))
	askReplay(r, got, 2)
	wantWhole(got, 3, "stop")
	if n := len(got.Chunks()); n != 4 {
		t.Errorf("%d chunks: %v", n, got.Chunks())
	}
}

// What a replica has heard when it stops, and not looked at, is handed on as well.
func TestUnheardIsHandedOn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	first := newLeaving(r, 0)
	first.HandledWithin = testkit.Patience // however slow this machine is
	w := beginRunning(r, 2)
	readers := []*rig.Reader{r.Inbox(), r.Inbox(), r.Inbox()}
	release := first.Delivery.Replays.Hold()
	for _, g := range readers {
		askReplay(r, g, 0)
	}
	r.Replica()
	gone := make(chan struct{})
	go func() { defer close(gone); first.drain() }()
	noResponders := r.Inbox()
	r.Eventually("it listens no more", func() bool { // to what ends behind the replays
		r.Send(r.D.Subjects.Probe(first.Name(), "none", 1), noResponders.Subject, nil, nil)
		return len(noResponders.All()) > 0
	})
	release()
	<-gone
	r.Append(w, rig.Ending("stop"))
	for _, g := range readers {
		wantWhole(g, 2, "stop")
	}
}

// Who takes a reader over at an earlier turn than the one here hears of that: it goes on
// with what was handed on while the reader asked again.
func TestTakenOverAtAnEarlierTurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	w, got, said := beginRunning(r, 1), r.Inbox(), r.Listen(r.D.Subjects.AnyInterest(delivery.InterestTaken))
	askReplay(r, got, 0)
	r.Eventually("its word", func() bool { return len(said.All()) == 1 })
	tell(r, r.D.Subjects.Interest(delivery.InterestTaken, "one"), []byte("1 tokenizer-other "+got.Subject))
	r.Eventually("its word again", func() bool { return len(said.All()) == 3 })
	if all := said.All(); string(all[0].Data) != string(all[2].Data) || s.Delivery.Replays.Open() != 1 {
		t.Errorf("%q, then %q", all[0].Data, all[2].Data)
	}
	r.Append(w, rig.Ending("stop"))
	wantWhole(got, 1, "stop")
}
