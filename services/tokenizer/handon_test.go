package tokenizer

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
	*Service
	r       *rig
	brake   *brake
	drain   func()
	release func()
}

// leaving starts a replica that stops behind so many chunks; 0: it is not held.
func (r *rig) leaving(chunks int) *leaving {
	r.t.Helper()
	b := &brake{at: chunks, reached: make(chan struct{}), release: make(chan struct{})}
	r.observe = func(o bus.Observer) bus.Observer { b.Observer = o; return b }
	l := &leaving{Service: New(r.deployment(), Config{MaxQueued: DefaultMaxQueued}), r: r, brake: b}
	r.observe = nil
	l.drain, l.release = r.start(l.Service), sync.OnceFunc(func() { close(b.release) })
	r.t.Cleanup(l.release)
	return l
}

// goes stops the replica where it is held.
func (l *leaving) goes() {
	l.r.t.Helper()
	gone := make(chan struct{})
	go func() { defer close(gone); l.drain() }()
	l.r.eventually("the replica stops", func() bool { return l.ctx.Err() != nil })
	l.release()
	<-gone
}

// sentBy are the indices of the chunks that a replica has replayed to a reader.
func (g *reader) sentBy(s *Service) (indices []int32) {
	for i, m := range g.all() {
		if strings.HasPrefix(m.Reply, strings.TrimSuffix(g.r.d.Subjects.AnyProbe(s.id), "*.*")) {
			indices = append(indices, g.chunks()[i].Index)
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
	r := newRig(t, 0)
	first := r.leaving(sent)
	w := r.running(logged)
	asked, got := r.listen(r.d.Subjects.Replay()), r.listen(schemas.DefaultInboxPrefix+">")
	answer, err := client.New(r.nc, client.Settings{Silence: time.Hour}).Resume(r.ctx(), "one", 0)
	if err != nil {
		t.Fatal(err)
	}
	<-first.brake.reached
	second := r.replica()
	first.goes()
	for i := logged; i < all; i++ {
		r.append(w, token(i))
	}
	r.append(w, ending("stop"))
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
	before := got.sentBy(first.Service)
	if len(before) < sent || !slices.Equal(append(before, got.sentBy(second)...), upTo(0, all)) {
		t.Errorf("the first sent %v, the second %v", before, got.sentBy(second))
	}
	if n := len(asked.all()); n != 1 {
		t.Errorf("the reader asked %d times", n)
	}
}

// handed are the streams that a replica has handed on, by their readers.
func (g *reader) handed(by *Service) map[string]handed {
	g.r.t.Helper()
	for _, nc := range []*nats.Conn{by.d.Conn.NATS(), g.r.nc} {
		if err := nc.Flush(); err != nil {
			g.r.t.Fatal(err)
		}
	}
	all := map[string]handed{}
	for _, m := range g.all() {
		h := handed{}
		if err := json.Unmarshal(m.Data, &h); err != nil {
			g.r.t.Fatal(err)
		}
		all[h.Subject] = h
	}
	return all
}

func (t *streams) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// What a replica that stops says of its streams: how far each was sent, where it may go,
// whether it keeps its request alive, and up to where it goes beside another one. Who is
// gone, or has had everything, is none of them.
func TestWhatIsHandedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.leaving(0)
	const body = `{"request_id":"one","text":"hi","max_tokens":400`
	producer, text := r.inbox(), r.listen("answers.one")
	r.prompt(body + `,"reply_to":"` + producer.subject + `"}`)
	w := r.claim("one")
	r.append(w, token(0), token(1), token(2))
	last, err := r.log.Last(r.ctx(), "one")
	if err != nil {
		t.Fatal(err)
	}
	said := r.listen(r.d.Subjects.AnyInterest(interestHanded))
	whole, late, asked, gone := r.inbox(), r.inbox(), r.inbox(), r.inbox()
	r.replay(whole, 0)
	r.replay(late, 9)
	r.replay(gone, 0)
	r.send(r.d.Subjects.Ask(), asked.subject, []byte(body+"}"), nil)
	r.prompt(body + `,"reply_to":"` + text.subject + `"}`)
	r.replay(producer, 0)
	for _, g := range []*reader{whole, asked, gone, text} {
		r.eventually("all chunks", func() bool { return len(g.chunks()) == 3 })
	}
	r.eventually("the producer's repeat has ended", func() bool { return len(producer.chunks()) == 6 && s.streams.count() == 5 })
	gone.leave()
	r.append(w, token(3))
	r.eventually("one is gone", func() bool { return s.streams.count() == 4 })
	for _, g := range []*reader{whole, asked, text} {
		r.eventually("all chunks", func() bool { return len(g.chunks()) == 4 })
	}
	s.drain()
	r.eventually("four are handed on", func() bool { return len(said.handed(s.Service)) >= 4 })
	got := said.handed(s.Service)
	if len(got) != 4 {
		t.Errorf("%d were handed on: %v", len(got), got)
	}
	for g, want := range map[*reader]handed{
		whole: {From: 4}, late: {From: 9}, asked: {From: 4, Asked: true}, text: {From: 4, Named: true},
	} {
		h := got[g.subject]
		want.Subject, want.Turn, want.Encoding = g.subject, h.Turn, h.Encoding
		want.Until = last
		if h != want || h.Turn == 0 {
			t.Errorf("handed on as %+v, want %+v", h, want)
		}
	}
}

// handTo hands a stream of request one to whoever is there, as who stops would.
func (r *rig) handTo(h handed) {
	r.t.Helper()
	body, err := json.Marshal(h)
	if err != nil {
		r.t.Fatal(err)
	}
	r.tell(r.d.Subjects.Interest(interestHanded, "one"), body)
}

// tell says what another tokenizer would.
func (r *rig) tell(subject string, body []byte) {
	r.t.Helper()
	m := bus.Told(subject, body)
	r.send(m.Subject, "", m.Data, m.Header)
}

// A stream that is handed on goes on with the next chunk, scores too, and ends where its
// reader has another one; what a replay would not be begun for is not gone on with.
func TestGoingOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	producer := r.inbox()
	r.prompt(`{"request_id":"one","input_ids":[1,2],"max_tokens":400,"score":"logprobs","reply_to":"` + producer.subject + `"}`)
	w := r.claim("one")
	for p := range int32(2) {
		r.append(w, &pb.Record{Kind: &pb.Record_Score{Score: &pb.Score{Position: p}}})
	}
	r.append(w, token(0))
	until, err := r.log.Last(r.ctx(), "one")
	if err != nil {
		t.Fatal(err)
	}
	r.append(w, token(1), token(2))
	r.eventually("the producer's chunks", func() bool { return len(producer.chunks()) == 5 })
	const turn = 1 << 60
	bad := []handed{
		{Subject: "$KV.vault.key"}, {Subject: "$KV.vault.key", Named: true}, {Subject: "answers.one"}, {Subject: r.d.Subjects.Cancel("one"), Named: true},
		{Subject: "_INBOX.x", Encoding: 9}, {Subject: ""}, {Subject: "_INBOX." + strings.Repeat("x", maxHanded)},
	}
	for _, h := range bad {
		h.Turn = turn
		r.handTo(h)
	}
	for _, turn := range []int64{0, -1, maxTurn + 1} {
		r.handTo(handed{Subject: "_INBOX.x", Turn: turn})
	}
	for request, body := range map[string]string{"one": `{"stream":"S","seq":1}`, "*": `{"subject":"_INBOX.x","turn":1}`} {
		subject := r.d.Subjects.Interest(interestHanded, request)
		header := fmt.Sprintf("NATS/1.0\r\n%s: %s\r\n\r\n", schemas.HeaderTold, subject)
		r.raw(fmt.Sprintf("HPUB %s %d %d\r\n%s%s\r\n", subject, len(header), len(header)+len(body), header, body))
	}
	all := r.listen(">")
	expected := map[*reader][]int32{}
	for _, c := range []struct {
		handed
		to   *reader
		want []int32
	}{
		{handed{From: beginning(0)}, r.inbox(), []int32{-2, -1, 0, 1, 2, 3}},
		{handed{From: -1}, r.inbox(), []int32{-1, 0, 1, 2, 3}},
		{handed{From: 0, Asked: true}, r.inbox(), []int32{0, 1, 2, 3}},
		{handed{From: 2, Named: true}, r.listen("answers.two"), []int32{2, 3}},
		{handed{From: 3, Encoding: pb.Encoding_ENCODING_PROTOBUF}, r.inbox(), []int32{3}},
		{handed{From: -1, Until: until}, producer, []int32{-1, 0}},
	} {
		c.Subject, c.Turn = c.to.subject, turn
		r.handTo(c.handed)
		expected[c.to] = c.want
	}
	r.eventually("all are gone on with", func() bool { return s.streams.count() == 5 && len(producer.chunks()) == 7 })
	if !s.streams.asked("one") {
		t.Error("nobody keeps the request alive")
	}
	r.append(w, token(3), ending("stop"))
	for g, want := range expected {
		if g != producer {
			g.end()
		}
		if got := g.sentBy(s); !slices.Equal(got, want) {
			t.Errorf("%s got %v, want %v", g.subject, got, want)
		}
	}
	for _, m := range all.all() {
		if slices.ContainsFunc(bad, func(h handed) bool { return h.Subject == m.Subject }) || m.Subject == "_INBOX.x" {
			t.Errorf("%s got %q", m.Subject, m.Data)
		}
	}
}

// Replicas that stop together hand a stream on once each at most; the reader asks again,
// and whoever is there then serves him.
func TestHandedOnByTheLast(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	leaving := []*leaving{r.leaving(0), r.leaving(0)}
	w := r.running(2)
	got := r.inbox()
	said := r.listen(r.d.Subjects.AnyInterest(interestHanded))
	r.replay(got, 0)
	r.eventually("two chunks", func() bool { return len(got.chunks()) == 2 })
	var gone sync.WaitGroup
	for _, l := range leaving {
		gone.Go(l.drain)
	}
	gone.Wait()
	for _, l := range leaving {
		r.eventually("it is handed on", func() bool { return len(said.handed(l.Service)) > 0 })
		if n := l.streams.count(); n > 0 {
			t.Errorf("%s has %d left", l.id, n)
		}
	}
	if n := len(said.all()); n > len(leaving) {
		t.Errorf("handed on %d times", n)
	}
	r.replica()
	r.append(w, token(2), ending("stop"))
	r.replay(got, 2)
	got.whole(3, "stop")
	if n := len(got.chunks()); n != 4 {
		t.Errorf("%d chunks: %v", n, got.chunks())
	}
}

// What a replica has heard when it stops, and not looked at, is handed on as well.
func TestUnheardIsHandedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	first := r.leaving(0)
	first.handled = testkit.Patience // however slow this machine is
	w := r.running(2)
	readers := []*reader{r.inbox(), r.inbox(), r.inbox()}
	first.streams.mu.Lock()
	for _, g := range readers {
		r.replay(g, 0)
	}
	r.replica()
	gone := make(chan struct{})
	go func() { defer close(gone); first.drain() }()
	r.eventually("it listens no more", func() bool {
		return !slices.ContainsFunc(first.subs, func(s *nats.Subscription) bool { return s.IsValid() && !s.IsDraining() })
	})
	first.streams.mu.Unlock()
	<-gone
	r.append(w, ending("stop"))
	for _, g := range readers {
		g.whole(2, "stop")
	}
}

// Who takes a reader over at an earlier turn than the one here hears of that: it goes on
// with what was handed on while the reader asked again.
func TestTakenOverAtAnEarlierTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	w, got, said := r.running(1), r.inbox(), r.listen(r.d.Subjects.AnyInterest(interestTaken))
	r.replay(got, 0)
	r.eventually("its word", func() bool { return len(said.all()) == 1 })
	r.tell(r.d.Subjects.Interest(interestTaken, "one"), []byte("1 tokenizer-other "+got.subject))
	r.eventually("its word again", func() bool { return len(said.all()) == 3 })
	if all := said.all(); string(all[0].Data) != string(all[2].Data) || s.streams.count() != 1 {
		t.Errorf("%q, then %q", all[0].Data, all[2].Data)
	}
	r.append(w, ending("stop"))
	got.whole(1, "stop")
}
