package delivery_test

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
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// begin has a request of so many tokens running, and its producer listening.
func beginPrompt(r *rig.Rig, request string, tokens int) *rig.Reader {
	r.T.Helper()
	got := r.Inbox()
	r.Prompt(fmt.Sprintf(`{"text":"hi","request_id":%q,"max_tokens":%d,"reply_to":%q}`, request, tokens, got.Subject))
	return got
}

// intoLog puts anything into a request's log, as an insider may.
func intoLog(r *rig.Rig, request string, data []byte, header nats.Header) {
	r.T.Helper()
	m := &nats.Msg{Subject: r.D.Subjects.Token(request), Data: data, Header: header}
	if _, err := r.D.Conn.JetStream().PublishMsg(r.Ctx(), m); err != nil {
		r.T.Fatal(err)
	}
}

// whole checks that an answer has its tokens once and in order, and one end.
func wantWhole(g *rig.Reader, tokens int, reason string) {
	g.R.T.Helper()
	end := g.End()
	var ids []uint32
	seen, ends := map[int32]*pb.Chunk{}, 0
	for _, c := range g.Chunks() {
		if before := seen[c.Index]; before != nil { // its shard changed hands
			if !proto.Equal(before, c) {
				g.R.T.Errorf("index %d came as %v and as %v", c.Index, before, c)
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
		g.R.T.Errorf("tokens %v, %d ends, the first by %q of %d tokens; want %d by %q",
			ids, ends, end.FinishReason, end.Usage.GetCompletionTokens(), tokens, reason)
	}
}

// What others write into a log neither ends nor changes nor blocks its answer.
func TestAnswerAmongNoise(t *testing.T) {
	r := rig.New(t, 0)
	s := r.Replica()
	forged, err := proto.Marshal(&pb.Chunk{RequestId: "r", Index: 3, Text: "x", FinishReason: "stop", Usage: &pb.Usage{PromptTokens: 1}})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := proto.Marshal(&pb.Record{Format: schemas.RecordFormat, Epoch: 1, Kind: &pb.Record_Token{Token: &pb.Token{Index: 1, Id: 1 << 30}}})
	if err != nil {
		t.Fatal(err)
	}
	got := beginPrompt(r, "r", 5)
	w := r.Claim("r")
	for i, data := range [][]byte{forged, {0xff, 0xff}, foreign, nil} {
		r.Append(w, rig.Token(i))
		intoLog(r, "r", data, nil)
	}
	intoLog(r, "r", nil, nats.Header{"Status": {"100"}})
	r.Append(w, rig.Token(4), rig.Ending("length"))
	wantWhole(got, 5, "length")
	if n := r.Counter(s, "log_noise_total"); n < 5 {
		t.Errorf("%v messages were counted as noise", n)
	}
}

// A log that has a gap is begun anew, and given to attention once more: its answer is whole, and nothing of it comes twice.
func TestAnswerWithAGap(t *testing.T) {
	r := rig.New(t, 1)
	got := beginPrompt(r, "r", 9)
	r.Append(r.Claim("r"), rig.Token(0), rig.Token(1))
	gap := rig.Token(5)
	gap.Format, gap.Epoch = schemas.RecordFormat, 1
	data, err := proto.Marshal(gap)
	if err != nil {
		t.Fatal(err)
	}
	intoLog(r, "r", data, nil)
	r.Eventually("it is begun anew, and has a second sequence", func() bool {
		all, _, err := r.Log.Read(r.Ctx(), "r", math.MaxUint64)
		queued, e := r.D.Conn.State(r.Ctx(), r.D.Streams.Sequences().Name)
		return err == nil && e == nil && len(all) == 1 && queued.Messages == 2
	})
	w := r.Claim("r")
	for i := range 9 {
		r.Append(w, rig.Token(i))
	}
	r.Append(w, rig.Ending("length"))
	wantWhole(got, 9, "length")
	if n := len(got.All()); n != 9 { // the last one has the end
		t.Errorf("%d chunks for 9 tokens and an end", n)
	}
}

// Tokens that were lost and are others when they are computed again reach nobody: the request ends with a word about it.
func TestOtherTokensAgain(t *testing.T) {
	r := rig.New(t, 0)
	r.Replica()
	got := beginPrompt(r, "r", 9)
	opened := r.Opened("r")
	r.Append(r.Claim("r"), rig.Token(0), rig.Token(1))
	r.Eventually("two chunks", func() bool { return len(got.Chunks()) == 2 })
	if err := r.D.Conn.JetStream().DeleteStream(r.Ctx(), r.D.Streams.Tokens().Name); err != nil {
		t.Fatal(err)
	}
	r.Eventually("its log is begun anew", func() bool { return r.Log.Restart(r.Ctx(), "r", opened) == nil })
	w := r.Claim("r")
	other := rig.Token(7)
	other.GetToken().Index = 0
	r.Append(w, other)
	for i := 1; i < 3; i++ {
		_ = w.Append(rig.Token(i)) // an error is one of the outcomes
	}
	if end := got.End(); end.Error.GetCode() != "internal" || end.Index != 2 || !strings.Contains(end.Error.Message, "others") {
		t.Errorf("%v", end)
	}
}

// A delivered answer takes one record, from which a replay makes the same bytes.
func TestPackedAnswer(t *testing.T) {
	r := rig.New(t, 2)
	live := beginPrompt(r, "r", 4)
	w := r.Claim("r")
	r.Append(w, rig.Token(0), rig.Token(1), rig.Token(2), rig.Token(3), rig.Ending("length"))
	wantWhole(live, 4, "length")
	r.Eventually("the log is one record", func() bool {
		s, err := r.D.Conn.State(r.Ctx(), r.D.Streams.Tokens().Name)
		return err == nil && s.First == s.Last
	})
	for _, body := range []string{`{"request_id":"r"}`, `{"request_id":"r","from_index":2}`} {
		again := r.Inbox()
		r.Send(r.D.Subjects.Replay(), again.Subject, []byte(body), nil)
		again.End()
		all, want := again.All(), live.All()
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
	repeat := beginPrompt(r, "r", 4)
	wantWhole(repeat, 4, "length")
	if len(live.Ends()) != 1 {
		t.Errorf("%d ends for the first reader", len(live.Ends()))
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
			r := rig.New(t, 0)
			if tc.ours {
				state, err := r.D.Conn.State(r.Ctx(), r.D.Streams.Tokens().Name)
				if err != nil {
					t.Fatal(err)
				}
				tc.place.Incarnation = state.Incarnation
			}
			s := r.Unstarted(r.D)
			for _, shard := range tc.shards {
				leaveShard(r, s, shard, tc.place)
			}
			r.Start(s)
			got := beginPrompt(r, "r", 2)
			r.Append(r.Claim("r"), rig.Token(0), rig.Token(1), rig.Ending("length"))
			wantWhole(got, 2, "length")
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
func leaveShard(r *rig.Rig, s *rig.Replica, shard int, at bus.Place) {
	r.T.Helper()
	value, err := proto.Marshal(&pb.Lease{Epoch: 1, Position: at.Sequence, Incarnation: at.Incarnation})
	if err != nil {
		r.T.Fatal(err)
	}
	if _, err := r.D.Leases.Put(r.Ctx(), s.Delivery.Kinds.ShardLease(shard), value); err != nil {
		r.T.Fatal(err)
	}
}

// The stream of token logs is deleted under a running request: its owner writes again what it had, and
// its answer is whole; so is the next one.
func TestTokensDeleted(t *testing.T) {
	r := rig.New(t, 1) // two share the shards out anew, and forget what was under way
	got := beginPrompt(r, "r", 9)
	w := r.Claim("r")
	r.Append(w, rig.Token(0), rig.Token(1))
	r.Eventually("two chunks", func() bool { return len(got.Chunks()) == 2 })
	if err := r.D.Conn.JetStream().DeleteStream(r.Ctx(), r.D.Streams.Tokens().Name); err != nil {
		t.Fatal(err)
	}
	for i := 2; i < 9; i++ {
		r.Append(w, rig.Token(i))
	}
	r.Append(w, rig.Ending("length"))
	wantWhole(got, 9, "length")
	next := beginPrompt(r, "next", 1)
	r.Append(r.Claim("next"), rig.Token(0), rig.Ending("length"))
	wantWhole(next, 1, "length")
	if len(got.Ends()) != 1 {
		t.Errorf("it ended %d times", len(got.Ends()))
	}
}

// Near the log's bound new requests are refused, and those that run go on.
func TestNearlyFullLog(t *testing.T) {
	r := rig.NewBounded(t, rig.Bounds{LogBytes: 1 << 20}, 1)
	running := beginPrompt(r, "running", 3)
	w := r.Claim("running")
	r.Append(w, rig.Token(0))
	intoLog(r, "ballast", make([]byte, 1<<20-1<<16), nil)
	refused := &pb.Chunk{}
	for i := 0; refused.GetError().GetCode() != "overloaded"; i++ {
		got := beginPrompt(r, fmt.Sprint("new", i), 3)
		r.Eventually("an answer or a log", func() bool {
			_, err := r.Log.Last(r.Ctx(), fmt.Sprint("new", i))
			return len(got.Ends()) > 0 || err == nil
		})
		if len(got.Ends()) > 0 {
			refused = got.Ends()[0]
		}
		time.Sleep(20 * time.Millisecond) // the streams are looked at each second
	}
	if e := refused.Error; e.RetryAfter == 0 || !strings.Contains(e.Message, "TOKENS") || !strings.Contains(e.Message, "of its 1048576 bytes") {
		t.Errorf("%v", e)
	}
	r.Append(w, rig.Token(1), rig.Token(2), rig.Ending("length"))
	wantWhole(running, 3, "length")
}

// Room that running requests may need is not given to others before they end,
// whichever replica accepted them.
func TestReservedRoom(t *testing.T) {
	r := rig.NewBounded(t, rig.Bounds{LogBytes: 256 << 10}, 0)
	replicas := []*rig.Replica{r.Replica(), r.Replica()}
	for _, s := range replicas {
		r.Eventually("a look at the stream, and its share of shards", func() bool {
			return s.Probe.Streams.Levels.Of(r.D.Streams.Tokens().Name).Bound > 0 && s.Delivery.Shards.Count() == schemas.LogShards/2
		})
	}
	first, second := beginPrompt(r, "first", 500), beginPrompt(r, "second", 500)
	w, other := r.Claim("first"), r.Claim("second")
	for _, s := range replicas {
		r.Eventually("both reservations", func() bool { return s.Delivery.Announced()+s.Admission.ReservedElsewhere() > 180_000 })
	}
	tries := 0
	again := func() *pb.Error {
		tries++
		return refusal(r, fmt.Sprint("next", tries), 500)
	}
	refused := again()
	if refused.GetCode() != "overloaded" || refused.RetryAfter == 0 || !strings.Contains(refused.Message, "of its 262144 bytes") {
		t.Errorf("%v", refused)
	}
	r.Append(w, rig.Token(0), rig.Ending("stop"))
	wantWhole(first, 1, "stop")
	r.Eventually("room again", func() bool { return again() == nil })
	r.Append(other, rig.Token(0), rig.Ending("stop"))
	wantWhole(second, 1, "stop")
}

// refusal sends a request and says why it was refused; nil: it was accepted.
func refusal(r *rig.Rig, request string, tokens int) *pb.Error {
	r.T.Helper()
	got := beginPrompt(r, request, tokens)
	r.Eventually("an answer or a log", func() bool {
		_, err := r.Log.Last(r.Ctx(), request)
		return len(got.Ends()) > 0 || err == nil
	})
	if ends := got.Ends(); len(ends) > 0 {
		return ends[0].Error
	}
	return nil
}

// What cannot fit a message is refused before anything is computed, with both
// numbers; a reader who wants a larger form is told once.
func TestTooLargeForAMessage(t *testing.T) {
	r := rig.NewBounded(t, rig.Bounds{MaxPayload: 64 << 10}, 1)
	got := r.Inbox()
	r.Prompt(`{"text":"hi","request_id":"json","max_tokens":1,"score":"logits","reply_to":"` + got.Subject + `"}`)
	if e := got.End().Error; e.GetCode() != "payload_too_large" || !strings.Contains(e.Message, "65536") || !strings.Contains(e.Message, "135") {
		t.Errorf("%v", e)
	}
	body, err := proto.Marshal(&pb.Prompt{InputIds: []uint32{1, 2, 3}, RequestId: "protobuf", MaxTokens: proto.Int32(0), Score: "logits"})
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: r.D.Subjects.Prompt(), Data: body, Header: nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}}}
	if _, err := r.D.Conn.JetStream().PublishMsg(r.Ctx(), m); err != nil {
		t.Fatal(err)
	}
	w := r.Claim("protobuf")
	for p := range 3 {
		logits := make([]float32, 8192)
		for i := range logits {
			logits[i] = -1.2345678e-9
		}
		r.Append(w, &pb.Record{Kind: &pb.Record_Score{Score: &pb.Score{Position: int32(p), Logits: logits}}})
	}
	r.Append(w, rig.Ending("length"))
	json := r.Inbox()
	r.Send(r.D.Subjects.Replay(), json.Subject, []byte(`{"request_id":"protobuf"}`), nil)
	if e := json.End().Error; e.GetCode() != "payload_too_large" {
		t.Errorf("%v", e)
	}
	r.Settle()
	if n := len(json.All()); n != 1 {
		t.Errorf("%d chunks came", n)
	}
}

// What replicas of another version or model have accepted is ended by attention, when
// none of them is here: its producer is told, once. What they have written meanwhile ends
// nothing.
func TestAnswerOfAnotherKind(t *testing.T) {
	r := rig.New(t, 1)
	got := r.Inbox()
	accept := &pb.Accept{
		Identity: &pb.Identity{Version: schemas.Version, Model: 1}, ReplyTo: got.Subject, Encoding: pb.Encoding_ENCODING_JSON,
		PromptSequence: 99, PromptTokens: 2, MaxTokens: 5,
	}
	theirs := tokenlog.New(r.D.Conn, r.D.Streams, tokenlog.Settings{Rules: tokenlog.Rules{Model: 1, Vocab: 1000, Positions: 9}, Writer: "attention-2"})
	if _, err := theirs.Accept(r.Ctx(), "r", accept); err != nil {
		t.Fatal(err)
	}
	w, _, err := theirs.Claim(r.Ctx(), "r", accept, tokenlog.WriterSettings{})
	if err != nil {
		t.Fatal(err)
	}
	r.Append(w, rig.Token(0), rig.Token(1))
	why := &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: "model_not_ready", Message: "accepted elsewhere"}}
	if err := r.Log.EndForeign(r.Ctx(), "r", accept, why); err != nil {
		t.Fatal(err)
	}
	if e := got.End().Error; e.GetCode() != "model_not_ready" || len(got.Ends()) != 1 {
		t.Errorf("ended in %v; %d ends", e, len(got.Ends()))
	}
}
