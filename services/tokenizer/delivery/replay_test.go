package delivery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// running is a request under way with some tokens.
func beginRunning(r *rig.Rig, tokens int) *tokenlog.Writer {
	r.T.Helper()
	r.Prompt(rig.AskBody)
	w := r.Claim("one")
	for i := range tokens {
		r.Append(w, rig.Token(i))
	}
	return w
}

func askReplay(r *rig.Rig, to *rig.Reader, from int) {
	r.T.Helper()
	r.Send(r.D.Subjects.Replay(), to.Subject, fmt.Appendf(nil, `{"request_id":"one","from_index":%d}`, from), nil)
}

// followers counts the consumers of the token log beside those of the shards.
func followers(r *rig.Rig) int {
	r.T.Helper()
	s, err := r.D.Conn.JetStream().Stream(r.Ctx(), r.D.Streams.Tokens().Name)
	if err != nil {
		r.T.Fatal(err)
	}
	n := 0
	for c := range s.ListConsumers(r.Ctx()).Info() {
		if f := c.Config.FilterSubject; f != "" && !strings.HasSuffix(f, "*") { // those of some shards have several
			n++
		}
	}
	return n
}

// quiet waits until no chunk has come for a while, and returns how many there are.
func quietAfter(g *rig.Reader) int {
	const enough = 10
	n, same := -1, 0
	for same < enough {
		if now := len(g.Chunks()); now != n {
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
	r := rig.New(t, 0)
	replicas := []*rig.Replica{r.Replica(), r.Replica()}
	w := beginRunning(r, 3)
	got := r.Inbox()
	for range 40 {
		askReplay(r, got, 1)
	}
	r.Eventually("one stream", func() bool {
		quietAfter(got)
		return followers(r) == 1 && replicas[0].Delivery.Replays.Open()+replicas[1].Delivery.Replays.Open() == 1
	})
	live := func(c *pb.Chunk) bool { return c.Index >= 3 }
	r.Append(w, rig.Token(3))
	r.Eventually("the live chunk", func() bool { return slices.ContainsFunc(got.Chunks(), live) })
	r.Append(w, rig.Ending("stop"))
	got.End()
	r.Eventually("no stream", func() bool { return followers(r) == 0 })
	chunks := got.Chunks()
	before := slices.IndexFunc(chunks, live)
	if len(chunks) != before+2 || chunks[before].Index != 3 {
		t.Errorf("%d chunks after %d: %v", len(chunks), before, chunks[before:])
	}
}

// A reader that goes away takes his stream along, and more than a bound of
// them are refused.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	w := beginRunning(r, 1)
	var readers []*rig.Reader
	refused := 0
	for range 3 * delivery.MaxStreamsPerRequest {
		got := r.Inbox()
		askReplay(r, got, 0)
		r.Eventually("a chunk", func() bool { return len(got.Chunks()) > 0 })
		if c := got.Chunks()[0]; c.Error.GetCode() == "overloaded" && c.Error.RetryAfter > 0 && strings.Contains(c.Error.Message, "16 may") {
			refused++
		} else if c.Index == 0 {
			readers = append(readers, got)
		}
	}
	if len(readers) != delivery.MaxStreamsPerRequest || refused != 2*delivery.MaxStreamsPerRequest {
		t.Errorf("%d are served, %d refused", len(readers), refused)
	}
	for _, got := range readers[1:] {
		got.Leave()
	}
	i := 1
	r.Eventually("the streams of those who left end", func() bool {
		r.Append(w, rig.Token(i))
		i++
		return followers(r) == 1
	})
	r.Append(w, rig.Ending("stop"))
	if c := readers[0].End(); c.FinishReason != "stop" {
		t.Errorf("who stayed got %v", c)
	}
}

// The producer who asks for a replay gets what was, and goes on with the stream
// that he has: nothing comes twice from then on.
func TestReplayToTheProducer(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == schemas.LogShards })
	first, got := shardEpoch(r, s, "one"), r.Inbox()
	r.Prompt(strings.Replace(rig.AskBody, "{", `{"reply_to":"`+got.Subject+`",`, 1))
	w := r.Claim("one")
	r.Append(w, rig.Token(0), rig.Token(1))
	r.Eventually("the live chunks", func() bool { return len(got.Chunks()) == 2 })
	askReplay(r, got, 1)
	r.Eventually("the repeat", func() bool { return len(got.Chunks()) == 3 })
	r.Eventually("no stream", func() bool { return followers(r) == 0 })
	r.Append(w, rig.Token(2), rig.Ending("stop"))
	got.End()
	// Who was late to renew its lease has the shard anew, and delivers anew what it has not noted.
	if n := len(got.Chunks()); n != 5 && shardEpoch(r, s, "one") == first {
		t.Errorf("%d chunks: %v", n, got.Chunks())
	}
}

// shardEpoch is how many owners the shard of a request has had.
func shardEpoch(r *rig.Rig, s *rig.Replica, request string) uint64 {
	r.T.Helper()
	entry, err := r.D.Leases.Get(r.Ctx(), s.Delivery.Kinds.ShardLease(schemas.ShardOf(request)))
	if err != nil {
		r.T.Fatal(err)
	}
	l := &pb.Lease{}
	if err := proto.Unmarshal(entry.Value(), l); err != nil {
		r.T.Fatal(err)
	}
	return l.Epoch
}

// A replay of a prompt that is accepted and not yet taken in waits for it; one
// of an unknown request is told so when no prompt waits.
func TestReplayBeforeIntake(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	release := r.Hold(s, "")
	r.Prompt(rig.AskBody)
	got := r.Inbox()
	askReplay(r, got, 0)
	bad := r.Inbox()
	r.Send(r.D.Subjects.Replay(), bad.Subject, []byte("{"), nil)
	bad.End() // the replica has seen both
	if n := len(got.All()); n > 0 {
		t.Fatalf("answered with %v", got.Chunks())
	}
	release()
	r.Append(r.Claim("one"), rig.Token(0), rig.Ending("stop"))
	if c := got.End(); c.FinishReason != "stop" {
		t.Errorf("ended by %v", c)
	}
	none := r.Inbox()
	r.Send(r.D.Subjects.Replay(), none.Subject, []byte(`{"request_id":"none"}`), nil)
	if c := none.End(); c.Error.GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "unknown") {
		t.Errorf("ended by %v", c)
	}
	for reader, want := range map[*rig.Reader]string{none: "replay", got: ""} {
		for _, m := range reader.All() {
			if has := m.Header.Get(schemas.HeaderRefused); has != want {
				t.Errorf("a chunk says %q of what was refused, want %q: %s", has, want, m.Data)
			}
		}
	}
}

// A replay of a log whose beginning is gone ends with a word about it.
func TestReplayNotWhole(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	data, err := proto.Marshal(&pb.Record{Format: schemas.RecordFormat, Epoch: 1, Kind: &pb.Record_Claim{Claim: &pb.Claim{}}})
	if err != nil {
		t.Fatal(err)
	}
	intoLog(r, "one", data, nil)
	got := r.Inbox()
	askReplay(r, got, 0)
	if c := got.End(); c.Error.GetCode() != "internal" || !strings.Contains(c.Error.Message, "gone") {
		t.Errorf("ended by %v", c)
	}
}

// A replay that asks for nothing usable costs nothing.
func TestBadReplays(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	for _, body := range []string{
		`{"request_id":"*"}`, `{"request_id":">"}`, `{"request_id":""}`, `{"request_id":"a","from_index":-1}`, "{", "text",
		`{"request_id":"` + strings.Repeat("\\u0001", 1<<20) + `"}`,
	} {
		got := r.Inbox()
		r.Send(r.D.Subjects.Replay(), got.Subject, []byte(body), nil)
		if c := got.End(); c.Error.GetCode() != "bad_request" || len(c.RequestId) > 1 {
			t.Errorf("%.40s: %.200s", body, c.String())
		}
	}
}
