package tokenizer

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// begin has a request of so many tokens running, and its producer listening.
func (r *rig) begin(request string, tokens int) *reader {
	r.t.Helper()
	got := r.inbox()
	r.prompt(fmt.Sprintf(`{"text":"hi","request_id":%q,"max_tokens":%d,"reply_to":%q}`, request, tokens, got.subject))
	return got
}

// intoLog puts anything into a request's log, as an insider may.
func (r *rig) intoLog(request string, data []byte, header nats.Header) {
	r.t.Helper()
	m := &nats.Msg{Subject: r.d.Subjects.Token(request), Data: data, Header: header}
	if _, err := r.d.Conn.JetStream().PublishMsg(r.ctx(), m); err != nil {
		r.t.Fatal(err)
	}
}

// whole checks that an answer has its tokens once and in order, and one end.
func (g *reader) whole(tokens int, reason string) {
	g.r.t.Helper()
	end := g.end()
	var ids []uint32
	seen, ends := map[int32]*pb.Chunk{}, 0
	for _, c := range g.chunks() {
		if before := seen[c.Index]; before != nil { // its shard changed hands
			if !proto.Equal(before, c) {
				g.r.t.Errorf("index %d came as %v and as %v", c.Index, before, c)
			}
			continue
		}
		seen[c.Index] = c
		ids = append(ids, c.TokenIds...)
		if c.FinishReason != "" {
			ends++
		}
	}
	if len(ids) != tokens || end.FinishReason != reason || ends != 1 || end.Usage.CompletionTokens != int32(tokens) {
		g.r.t.Errorf("tokens %v, %d ends, the first by %q of %d tokens; want %d by %q",
			ids, ends, end.FinishReason, end.Usage.GetCompletionTokens(), tokens, reason)
	}
}

// What others write into a log neither ends nor changes nor blocks its answer.
func TestAnswerAmongNoise(t *testing.T) {
	r := newRig(t, 0)
	s := r.replica()
	forged, err := proto.Marshal(&pb.Chunk{RequestId: "r", Index: 3, Text: "x", FinishReason: "stop", Usage: &pb.Usage{PromptTokens: 1}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := proto.Marshal(&pb.Record{Format: schemas.RecordFormat, Epoch: 1, Kind: &pb.Record_Token{Token: &pb.Token{Index: 1, Id: 1 << 30}}})
	if err != nil {
		t.Fatal(err)
	}
	got := r.begin("r", 5)
	w := r.claim("r")
	for i, data := range [][]byte{forged, {0xff, 0xff}, foreign, nil} {
		r.append(w, token(i))
		r.intoLog("r", data, nil)
	}
	r.intoLog("r", nil, nats.Header{"Status": {"100"}})
	r.append(w, token(4), ending("length"))
	got.whole(5, "length")
	if n := r.counter(s, "log_noise_total"); n < 5 {
		t.Errorf("%v messages were counted as noise", n)
	}
}

// A log that has a gap ends its request with an error at once.
func TestAnswerWithAGap(t *testing.T) {
	r := newRig(t, 1)
	got := r.begin("r", 9)
	r.append(r.claim("r"), token(0), token(1))
	gap := token(5)
	gap.Format, gap.Epoch = schemas.RecordFormat, 1
	data, err := proto.Marshal(gap)
	if err != nil {
		t.Fatal(err)
	}
	r.intoLog("r", data, nil)
	if end := got.end(); end.Error.GetCode() != "internal" || end.Index != 2 || !strings.Contains(end.Error.Message, "not whole") {
		t.Errorf("%v", end)
	}
}

// A delivered answer takes one record, from which a replay makes the same bytes.
func TestPackedAnswer(t *testing.T) {
	r := newRig(t, 2)
	live := r.begin("r", 4)
	w := r.claim("r")
	r.append(w, token(0), token(1), token(2), token(3), ending("length"))
	live.whole(4, "length")
	r.eventually("the log is one record", func() bool {
		s, err := r.d.Conn.State(r.ctx(), r.d.Streams.Tokens().Name)
		return err == nil && s.First == s.Last
	})
	for _, body := range []string{`{"request_id":"r"}`, `{"request_id":"r","from_index":2}`} {
		again := r.inbox()
		r.send(r.d.Subjects.Replay(), again.subject, []byte(body), nil)
		again.end()
		all, want := again.all(), live.all()
		want = want[len(want)-len(all):]
		for i := range all {
			if !bytes.Equal(all[i].Data, want[i].Data) {
				t.Errorf("%s: chunk %d is\n%s\nand was\n%s", body, i, all[i].Data, want[i].Data)
			}
		}
		if len(all) < 2 {
			t.Errorf("%s: %d chunks", body, len(all))
		}
	}
	repeat := r.begin("r", 4)
	repeat.whole(4, "length")
	if len(live.ends()) != 1 {
		t.Errorf("%d ends for the first reader", len(live.ends()))
	}
}

// A lease's position that no message of the stream has is not used: neither one that all
// shards have, nor one that a shard has beside others that begin with the first message.
func TestPositionBeyondTheStream(t *testing.T) {
	for _, tc := range []struct {
		name   string
		place  bus.Place
		ours   bool // it names the stream that is there
		shards []int
	}{
		{"of no stream", bus.Place{Sequence: 1 << 40}, false, allShards()},
		{"of another stream", bus.Place{Incarnation: 99, Sequence: 1}, false, allShards()},
		{"beyond", bus.Place{Sequence: 1 << 40}, true, allShards()},
		{"one is beyond", bus.Place{Sequence: 1 << 40}, true, []int{schemas.ShardOf("r")}},
		{"one is at the last number", bus.Place{Sequence: math.MaxUint64}, true, []int{schemas.ShardOf("r")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 0)
			if tc.ours {
				state, err := r.d.Conn.State(r.ctx(), r.d.Streams.Tokens().Name)
				if err != nil {
					t.Fatal(err)
				}
				tc.place.Incarnation = state.Incarnation
			}
			s := New(r.d, Config{MaxQueued: DefaultMaxQueued})
			for _, shard := range tc.shards {
				r.leaveShard(s, shard, tc.place)
			}
			r.start(s)
			got := r.begin("r", 2)
			r.append(r.claim("r"), token(0), token(1), ending("length"))
			got.whole(2, "length")
		})
	}
}

func allShards() (all []int) {
	for shard := range schemas.LogShards {
		all = append(all, shard)
	}
	return all
}

// leaveShard makes a place the position at which a shard was left.
func (r *rig) leaveShard(s *Service, shard int, at bus.Place) {
	r.t.Helper()
	value, err := proto.Marshal(&pb.Lease{Epoch: 1, Position: at.Sequence, Incarnation: at.Incarnation})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.d.Leases.Put(r.ctx(), s.shardLease(shard), value); err != nil {
		r.t.Fatal(err)
	}
}

// The stream of token logs is deleted under a running request: it ends with an
// error, once, and the next one is served.
func TestTokensDeleted(t *testing.T) {
	r := newRig(t, 1) // two share the shards out anew, and forget what was under way
	got := r.begin("r", 9)
	w := r.claim("r")
	r.append(w, token(0), token(1))
	r.eventually("two chunks", func() bool { return len(got.chunks()) == 2 })
	if err := r.d.Conn.JetStream().DeleteStream(r.ctx(), r.d.Streams.Tokens().Name); err != nil {
		t.Fatal(err)
	}
	_ = w.Append(token(2)) // an error is one of the outcomes
	if end := got.end(); end.Error.GetCode() != "internal" || end.Index != 2 {
		t.Errorf("%v", end)
	}
	<-w.Done()
	next := r.begin("next", 1)
	r.append(r.claim("next"), token(0), ending("length"))
	next.whole(1, "length")
	if len(got.ends()) != 1 {
		t.Errorf("it ended %d times", len(got.ends()))
	}
}

// Near the log's bound new requests are refused, and those that run go on.
func TestNearlyFullLog(t *testing.T) {
	r := newBoundedRig(t, bounds{logBytes: 1 << 20}, 1)
	running := r.begin("running", 3)
	w := r.claim("running")
	r.append(w, token(0))
	r.intoLog("ballast", make([]byte, 1<<20-1<<16), nil)
	refused := &pb.Chunk{}
	for i := 0; refused.GetError().GetCode() != "overloaded"; i++ {
		got := r.begin(fmt.Sprint("new", i), 3)
		r.eventually("an answer or a log", func() bool {
			_, err := r.log.Last(r.ctx(), fmt.Sprint("new", i))
			return len(got.ends()) > 0 || err == nil
		})
		if len(got.ends()) > 0 {
			refused = got.ends()[0]
		}
		time.Sleep(20 * time.Millisecond) // the streams are looked at each second
	}
	if e := refused.Error; e.RetryAfter == 0 || !strings.Contains(e.Message, "TOKENS") || !strings.Contains(e.Message, "of its 1048576 bytes") {
		t.Errorf("%v", e)
	}
	r.append(w, token(1), token(2), ending("length"))
	running.whole(3, "length")
}

// Room that running requests may need is not given to others before they end,
// whichever replica accepted them.
func TestReservedRoom(t *testing.T) {
	r := newBoundedRig(t, bounds{logBytes: 256 << 10}, 0)
	replicas := []*Service{r.replica(), r.replica()}
	for _, s := range replicas {
		r.eventually("a look at the stream, and its share of shards", func() bool {
			return s.probe.Streams.Levels.Of(r.d.Streams.Tokens().Name).Bound > 0 && s.shards.count() == schemas.LogShards/2
		})
	}
	first, second := r.begin("first", 500), r.begin("second", 500)
	w, other := r.claim("first"), r.claim("second")
	for _, s := range replicas {
		r.eventually("both reservations", func() bool { return s.reservations.Announced()+s.admission.ReservedElsewhere() > 180_000 })
	}
	tries := 0
	again := func() *pb.Error {
		tries++
		return r.refusal(fmt.Sprint("next", tries), 500)
	}
	refused := again()
	if refused.GetCode() != "overloaded" || refused.RetryAfter == 0 || !strings.Contains(refused.Message, "of its 262144 bytes") {
		t.Errorf("%v", refused)
	}
	r.append(w, token(0), ending("stop"))
	first.whole(1, "stop")
	r.eventually("room again", func() bool { return again() == nil })
	r.append(other, token(0), ending("stop"))
	second.whole(1, "stop")
}

// refusal sends a request and says why it was refused; nil: it was accepted.
func (r *rig) refusal(request string, tokens int) *pb.Error {
	r.t.Helper()
	got := r.begin(request, tokens)
	r.eventually("an answer or a log", func() bool {
		_, err := r.log.Last(r.ctx(), request)
		return len(got.ends()) > 0 || err == nil
	})
	if ends := got.ends(); len(ends) > 0 {
		return ends[0].Error
	}
	return nil
}

// What cannot fit a message is refused before anything is computed, with both
// numbers; a reader who wants a larger form is told once.
func TestTooLargeForAMessage(t *testing.T) {
	r := newBoundedRig(t, bounds{maxPayload: 64 << 10}, 1)
	got := r.inbox()
	r.prompt(`{"text":"hi","request_id":"json","max_tokens":1,"score":"logits","reply_to":"` + got.subject + `"}`)
	if e := got.end().Error; e.GetCode() != "payload_too_large" || !strings.Contains(e.Message, "65536") || !strings.Contains(e.Message, "135") {
		t.Errorf("%v", e)
	}
	body, err := proto.Marshal(&pb.Prompt{InputIds: []uint32{1, 2, 3}, RequestId: "protobuf", MaxTokens: proto.Int32(0), Score: "logits"})
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: r.d.Subjects.Prompt(), Data: body, Header: nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}}}
	if _, err := r.d.Conn.JetStream().PublishMsg(r.ctx(), m); err != nil {
		t.Fatal(err)
	}
	w := r.claim("protobuf")
	for p := range 3 {
		logits := make([]float32, 8192)
		for i := range logits {
			logits[i] = -1.2345678e-9
		}
		r.append(w, &pb.Record{Kind: &pb.Record_Score{Score: &pb.Score{Position: int32(p), Logits: logits}}})
	}
	r.append(w, ending("length"))
	json := r.inbox()
	r.send(r.d.Subjects.Replay(), json.subject, []byte(`{"request_id":"protobuf"}`), nil)
	if e := json.end().Error; e.GetCode() != "payload_too_large" {
		t.Errorf("%v", e)
	}
	r.settle()
	if n := len(json.all()); n != 1 {
		t.Errorf("%d chunks came", n)
	}
}

// What replicas of another version or model have accepted is ended by attention, when
// none of them is here: its producer is told, once. What they have written meanwhile ends
// nothing.
func TestAnswerOfAnotherKind(t *testing.T) {
	r := newRig(t, 1)
	got := r.inbox()
	accept := &pb.Accept{
		Identity: &pb.Identity{Version: schemas.Version, Model: 1}, ReplyTo: got.subject, Encoding: pb.Encoding_ENCODING_JSON,
		PromptSequence: 99, PromptTokens: 2, MaxTokens: 5,
	}
	theirs := tokenlog.New(r.d.Conn, r.d.Streams, tokenlog.Settings{Rules: tokenlog.Rules{Model: 1, Vocab: 1000, Positions: 9}, Writer: "attention-2"})
	if _, err := theirs.Accept(r.ctx(), "r", accept); err != nil {
		t.Fatal(err)
	}
	w, _, err := theirs.Claim(r.ctx(), "r", accept, tokenlog.WriterSettings{})
	if err != nil {
		t.Fatal(err)
	}
	r.append(w, token(0), token(1))
	why := &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: "model_not_ready", Message: "accepted elsewhere"}}
	if err := r.log.EndForeign(r.ctx(), "r", accept, why); err != nil {
		t.Fatal(err)
	}
	if e := got.end().Error; e.GetCode() != "model_not_ready" || len(got.ends()) != 1 {
		t.Errorf("ended in %v; %d ends", e, len(got.ends()))
	}
}
