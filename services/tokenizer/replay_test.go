package tokenizer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// running is a request under way with some tokens.
func (r *rig) running(tokens int) *tokenlog.Writer {
	r.t.Helper()
	r.prompt(askBody)
	w := r.claim("one")
	for i := range tokens {
		r.append(w, token(i))
	}
	return w
}

func (r *rig) replay(to *reader, from int) {
	r.t.Helper()
	r.send(r.d.Subjects.Replay(), to.subject, fmt.Appendf(nil, `{"request_id":"one","from_index":%d}`, from), nil)
}

// followers counts the consumers of the token log beside those of the shards.
func (r *rig) followers() int {
	r.t.Helper()
	s, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Tokens().Name)
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for c := range s.ListConsumers(r.ctx()).Info() {
		if f := c.Config.FilterSubject; f != "" && !strings.HasSuffix(f, "*") { // those of some shards have several
			n++
		}
	}
	return n
}

// quiet waits until no chunk has come for a while, and returns how many there are.
func (g *reader) quiet() int {
	const enough = 10
	n, same := -1, 0
	for same < enough {
		if now := len(g.chunks()); now != n {
			n, same = now, 0
		}
		same++
		time.Sleep(50 * time.Millisecond)
	}
	return n
}

// However often a reader asks, there is one stream to him, on one replica.
func TestReplaysToOneReader(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	w := r.running(3)
	got := r.inbox()
	for range 40 {
		r.replay(got, 1)
	}
	r.eventually("one stream", func() bool { return len(got.chunks()) >= 2 && r.followers() == 1 })
	before := got.quiet()
	r.append(w, token(3))
	r.eventually("the live chunk", func() bool { return len(got.chunks()) > before })
	r.append(w, ending("stop"))
	got.end()
	r.eventually("no stream", func() bool { return r.followers() == 0 })
	if chunks := got.chunks(); len(chunks) != before+2 || chunks[before].Index != 3 {
		t.Errorf("%d chunks after %d: %v", len(chunks), before, chunks[before:])
	}
}

// A reader that goes away takes his stream along, and more than a bound of
// them are refused.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	w := r.running(1)
	var readers []*reader
	refused := 0
	for range 3 * maxStreamsPerRequest {
		got := r.inbox()
		r.replay(got, 0)
		r.eventually("a chunk", func() bool { return len(got.chunks()) > 0 })
		if c := got.chunks()[0]; c.Error.GetCode() == "overloaded" && c.Error.RetryAfter > 0 && strings.Contains(c.Error.Message, "16 may") {
			refused++
		} else if c.Index == 0 {
			readers = append(readers, got)
		}
	}
	if len(readers) != maxStreamsPerRequest || refused != 2*maxStreamsPerRequest {
		t.Errorf("%d are served, %d refused", len(readers), refused)
	}
	for _, got := range readers[1:] {
		got.leave()
	}
	i := 1
	r.eventually("the streams of those who left end", func() bool {
		r.append(w, token(i))
		i++
		return r.followers() == 1
	})
	r.append(w, ending("stop"))
	if c := readers[0].end(); c.FinishReason != "stop" {
		t.Errorf("who stayed got %v", c)
	}
}

// The producer who asks for a replay gets what was, and goes on with the stream
// that he has: nothing comes twice from then on.
func TestReplayToTheProducer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	got := r.inbox()
	r.prompt(strings.Replace(askBody, "{", `{"reply_to":"`+got.subject+`",`, 1))
	w := r.claim("one")
	r.append(w, token(0), token(1))
	r.eventually("the live chunks", func() bool { return len(got.chunks()) == 2 })
	r.replay(got, 1)
	r.eventually("the repeat", func() bool { return len(got.chunks()) == 3 })
	r.eventually("no stream", func() bool { return r.followers() == 0 })
	r.append(w, token(2), ending("stop"))
	got.end()
	if n := len(got.chunks()); n != 5 {
		t.Errorf("%d chunks: %v", n, got.chunks())
	}
}

// A replay of a prompt that is accepted and not yet taken in waits for it; one
// of an unknown request is told so when no prompt waits.
func TestReplayBeforeIntake(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	release := r.hold(s, "")
	r.prompt(askBody)
	got := r.inbox()
	r.replay(got, 0)
	bad := r.inbox()
	r.send(r.d.Subjects.Replay(), bad.subject, []byte("{"), nil)
	bad.end() // the replica has seen both
	if n := len(got.all()); n > 0 {
		t.Fatalf("answered with %v", got.chunks())
	}
	release()
	r.append(r.claim("one"), token(0), ending("stop"))
	if c := got.end(); c.FinishReason != "stop" {
		t.Errorf("ended by %v", c)
	}
	none := r.inbox()
	r.send(r.d.Subjects.Replay(), none.subject, []byte(`{"request_id":"none"}`), nil)
	if c := none.end(); c.Error.GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "unknown") {
		t.Errorf("ended by %v", c)
	}
	for reader, want := range map[*reader]string{none: "replay", got: ""} {
		for _, m := range reader.all() {
			if has := m.Header.Get(schemas.HeaderRefused); has != want {
				t.Errorf("a chunk says %q of what was refused, want %q: %s", has, want, m.Data)
			}
		}
	}
}

// A replay of a log whose beginning is gone ends with a word about it.
func TestReplayNotWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	data, err := proto.Marshal(&pb.Record{Format: schemas.RecordFormat, Epoch: 1, Kind: &pb.Record_Claim{Claim: &pb.Claim{}}})
	if err != nil {
		t.Fatal(err)
	}
	r.intoLog("one", data, nil)
	got := r.inbox()
	r.replay(got, 0)
	if c := got.end(); c.Error.GetCode() != "internal" || !strings.Contains(c.Error.Message, "gone") {
		t.Errorf("ended by %v", c)
	}
}

// A replay that asks for nothing usable costs nothing.
func TestBadReplays(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	for _, body := range []string{
		`{"request_id":"*"}`, `{"request_id":">"}`, `{"request_id":""}`, `{"request_id":"a","from_index":-1}`, "{", "text",
		`{"request_id":"` + strings.Repeat("\\u0001", 1<<20) + `"}`,
	} {
		got := r.inbox()
		r.send(r.d.Subjects.Replay(), got.subject, []byte(body), nil)
		if c := got.end(); c.Error.GetCode() != "bad_request" || len(c.RequestId) > 1 {
			t.Errorf("%.40s: %.200s", body, c.String())
		}
	}
}

// One tenant's requests leave readers of another's answer their share of the streams.
func TestReplaysAreShared(t *testing.T) {
	t.Parallel()
	s := newStreams("tokenizer-1", time.Now)
	open := func(tenant string, i int) *stream {
		st := &stream{request: fmt.Sprint(tenant, i/maxStreamsPerRequest), tenant: tenant, to: destination{subject: fmt.Sprint("in", i)}, turn: s.next()}
		if _, err := s.open(t.Context(), st); err != nil {
			return nil
		}
		return st
	}
	n := 0
	for ; open("most", n) != nil; n++ {
	}
	if n != maxStreams/2 {
		t.Errorf("one tenant alone has %d streams, want %d", n, maxStreams/2)
	}
	unknown := open("", 0)
	if unknown == nil || open("other", 0) == nil {
		t.Fatal("others have none")
	}
	if err := s.belongs(unknown, "most"); err == nil {
		t.Error("a stream whose request turns out to be the tenant's makes more than its share")
	}
	if err := s.belongs(unknown, "other"); err != nil {
		t.Error(err)
	}
	for _, st := range s.byID {
		s.close(st)
	}
	if had := s.held.Had(); had != 0 {
		t.Errorf("%d are still held", had)
	}
}
