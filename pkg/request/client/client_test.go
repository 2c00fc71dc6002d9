package client

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

	"github.com/switchyard/switchyard/internal/testkit"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

var fast = Settings{Silence: 100 * time.Millisecond}

// read collects a stream: its text, its terminal chunk, and its error.
func read(s *Stream) (text string, last *pb.Chunk, err error) {
	for c, err := range s.Chunks() {
		if err != nil {
			return text, last, err
		}
		if text += c.Text; c.FinishReason != "" {
			last = c
		}
	}
	return text, last, nil
}

func ask(t *testing.T, s *server.Server, p *pb.Prompt) *Stream {
	t.Helper()
	stream, err := New(connect(t, s), fast).Prompt(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestWhole wants the whole answer whatever happens to its chunks.
func TestWhole(t *testing.T) {
	const n = 6
	restFrom := func(f *fake, to string, r *pb.Replay) { f.rest(to, r.RequestId, n, r.FromIndex) }
	tests := []struct {
		name    string
		sent    []int32 // -1: the end
		again   func(*fake, string, *pb.Replay)
		replays bool
	}{
		{"in order", []int32{0, 1, 2, 3, 4, 5, -1}, nil, false},
		{"repeated", []int32{0, 0, 1, 2, 1, 2, 3, 0, 4, 5, 5, -1, -1}, nil, false},
		{"swapped", []int32{1, 0, 3, 2, 5, 4, -1}, nil, false},
		{"end first", []int32{-1, 5, 4, 3, 2, 1, 0}, nil, false},
		{"one dropped", []int32{0, 1, 3, 4, 5, -1}, restFrom, true},
		{"first dropped", []int32{1, 2, 3, 4, 5, -1}, restFrom, true},
		{"last dropped", []int32{0, 1, 2, 3, 4, -1}, restFrom, true},
		{"end dropped", []int32{0, 1, 2, 3, 4, 5}, restFrom, true},
		{"all dropped", nil, restFrom, true},
		{"replay drops too", []int32{0, 5}, func(f *fake, to string, r *pb.Replay) {
			f.send(to, r.RequestId, n, r.FromIndex, 4, -1)
		}, true},
		{"replay from the start", []int32{0, 1, 2}, func(f *fake, to string, r *pb.Replay) {
			f.rest(to, r.RequestId, n, 0)
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := startServer(t)
			f := startFake(t, server, func(f *fake, p *pb.Prompt) { f.send(p.ReplyTo, p.RequestId, n, tt.sent...) }, tt.again)
			c := New(connect(t, server), fast)
			if !tt.replays { // however late chunks are
				c.settings.Silence, c.gapDelay = time.Hour, time.Hour
			}
			stream, err := c.Prompt(t.Context(), &pb.Prompt{Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			text, last, err := read(stream)
			if err != nil || text != "0 1 2 3 4 5 " || last.GetFinishReason() != "length" {
				t.Fatalf("got %q, end %v, error %v", text, last, err)
			}
			if _, replays, _ := f.counts(); (replays > 0) != tt.replays {
				t.Errorf("asked for %d replays", replays)
			}
		})
	}
}

func TestScores(t *testing.T) {
	server := startServer(t)
	all := func(f *fake, to, request string, positions ...int32) {
		for _, i := range positions {
			f.chunk(to, scoreOf(request, i))
		}
		f.send(to, request, 1, 0, -1)
	}
	startFake(t, server,
		func(f *fake, p *pb.Prompt) { all(f, p.ReplyTo, p.RequestId, 0, 2) },
		func(f *fake, to string, r *pb.Replay) { all(f, to, r.RequestId, 0, 1, 2) })
	var positions []int32
	for c, err := range ask(t, server, &pb.Prompt{Text: "hi", Score: "logprobs"}).Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		if c.Score != nil {
			positions = append(positions, c.Score.Position)
		}
	}
	if len(positions) != 3 || positions[0] != 0 || positions[1] != 1 || positions[2] != 2 {
		t.Errorf("positions are %v", positions)
	}
}

// refusal is of a request, or of a replay.
func refusal(request, code string) *pb.Chunk {
	return &pb.Chunk{RequestId: request, Index: -1, FinishReason: "error", Error: &pb.Error{Code: code, Message: "no"}}
}

// refuse answers a replay as a server that does not know the request.
func refuse(f *fake, to, request string) { f.refuseReplay(to, refusal(request, CodeBadRequest)) }

// TestNotTakenInYet wants an accepted prompt that replays do not know yet to be waited for.
func TestNotTakenInYet(t *testing.T) {
	server := startServer(t)
	startFake(t, server, func(f *fake, p *pb.Prompt) {
		if prompts, _, _ := f.counts(); prompts == 3 {
			f.rest(p.ReplyTo, p.RequestId, 2, 0)
		}
	}, func(f *fake, to string, r *pb.Replay) { refuse(f, to, r.RequestId) })
	text, _, err := read(ask(t, server, &pb.Prompt{Text: "hi"}))
	if err != nil || text != "0 1 " {
		t.Errorf("got %q, error %v", text, err)
	}
}

// TestRefusedLate wants a refusal that comes after a replay request to end the request.
func TestRefusedLate(t *testing.T) {
	server := startServer(t)
	f := startFake(t, server, func(f *fake, p *pb.Prompt) {
		if prompts, _, _ := f.counts(); prompts > 1 {
			f.chunk(p.ReplyTo, refusal(p.RequestId, CodeBadRequest))
		}
	}, func(f *fake, to string, r *pb.Replay) { refuse(f, to, r.RequestId) })
	_, last, err := read(ask(t, server, &pb.Prompt{Text: "hi"}))
	if err != nil || code(Failure(last)) != CodeBadRequest {
		t.Errorf("end %v, error %v", last, err)
	}
	if prompts, _, _ := f.counts(); prompts < 2 { // more, if the refusal was late once more
		t.Errorf("%d prompts were sent", prompts)
	}
}

// TestLost wants a request that the server has lost to be no fault of the prompt.
func TestLost(t *testing.T) {
	server := startServer(t)
	startFake(t, server, func(f *fake, p *pb.Prompt) { f.send(p.ReplyTo, p.RequestId, 9, 0, 1) },
		func(f *fake, to string, r *pb.Replay) { refuse(f, to, r.RequestId) })
	text, last, err := read(ask(t, server, &pb.Prompt{Text: "hi"}))
	if text != "0 1 " || last != nil || code(err) != CodeInternal || !strings.Contains(err.Error(), "is lost: it was answered up to token 2") {
		t.Errorf("got %q, end %v, error %v", text, last, err)
	}
}

// TestSlowIntake wants a prompt that waits to be taken in not to be sent again and
// again: what comes in the end is its own, also when that is a refusal.
func TestSlowIntake(t *testing.T) {
	for name, own := range map[string]func(f *fake, to, request string){
		"":             func(f *fake, to, request string) { f.rest(to, request, 2, 0) },
		CodeOverloaded: func(f *fake, to, request string) { f.chunk(to, refusal(request, CodeOverloaded)) },
	} {
		server := startServer(t)
		f := startFake(t, server, nil, func(f *fake, to string, r *pb.Replay) {
			_, replays, _ := f.counts()
			if replays < sendAgain { // from then on its own is on its way
				f.refuseReplay(to, refusal(r.RequestId, CodeOverloaded))
			}
			if replays == sendAgain-1 {
				own(f, to, r.RequestId)
			}
		})
		_, last, err := read(ask(t, server, &pb.Prompt{Text: "hi"}))
		if err != nil || last == nil || last.GetError().GetCode() != name {
			t.Errorf("%q: end %v, error %v", name, last, err)
		}
		if prompts, _, _ := f.counts(); prompts != 1 {
			t.Errorf("%q: %d prompts were sent", name, prompts)
		}
	}
}

// TestRefusalLostWhileOthersWait wants a prompt to be sent again in the end, whose
// refusal was lost while prompts wait all the time.
func TestRefusalLostWhileOthersWait(t *testing.T) {
	server := startServer(t)
	f := startFake(t, server, func(f *fake, p *pb.Prompt) {
		if prompts, _, _ := f.counts(); prompts > 1 {
			f.chunk(p.ReplyTo, refusal(p.RequestId, CodeOverloaded))
		}
	}, func(f *fake, to string, r *pb.Replay) { f.refuseReplay(to, refusal(r.RequestId, CodeOverloaded)) })
	_, last, err := read(ask(t, server, &pb.Prompt{Text: "hi"}))
	if err != nil || code(Failure(last)) != CodeOverloaded {
		t.Errorf("end %v, error %v", last, err)
	}
	if prompts, replays, _ := f.counts(); prompts != 2 || replays < sendAgain {
		t.Errorf("%d prompts and %d replays were sent", prompts, replays)
	}
}

func TestErrorChunkEnds(t *testing.T) {
	server := startServer(t)
	startFake(t, server, func(f *fake, p *pb.Prompt) {
		f.send(p.ReplyTo, p.RequestId, 9, 0)
		f.chunk(p.ReplyTo, &pb.Chunk{
			RequestId: p.RequestId, Index: -1, FinishReason: "error",
			Error: &pb.Error{Code: CodeOverloaded, Message: "no pages", RetryAfter: 1.5},
		})
	}, nil)
	text, last, err := read(ask(t, server, &pb.Prompt{Text: "hi"}))
	var typed *Error
	if err != nil || text != "0 " || !errors.As(Failure(last), &typed) {
		t.Fatalf("got %q, end %v, error %v", text, last, err)
	}
	if typed.Code != CodeOverloaded || typed.RetryAfter != 1500*time.Millisecond {
		t.Errorf("got %v", typed)
	}
}

// TestNeverACleanEnd wants an error when the missing chunk cannot be had.
func TestNeverACleanEnd(t *testing.T) {
	server := startServer(t)
	f := startFake(t, server, func(f *fake, p *pb.Prompt) { f.send(p.ReplyTo, p.RequestId, 3, 0, 2, -1) }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := New(connect(t, server), fast).Prompt(ctx, &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		testkit.Eventually(t, "two replays", func() bool { _, replays, _ := f.counts(); return replays >= 2 })
		cancel()
	}()
	text, last, err := read(stream)
	if text != "0 " || last != nil || code(err) != CodeCancelled {
		t.Errorf("got %q, end %v, error %v", text, last, err)
	}
}

func TestServiceGone(t *testing.T) {
	server := startServer(t)
	startFake(t, server, func(f *fake, p *pb.Prompt) {
		f.send(p.ReplyTo, p.RequestId, 3, 0)
		if err := f.nc.Flush(); err != nil {
			t.Error(err)
		}
		f.nc.Close()
	}, nil)
	c := New(connect(t, server), Settings{Silence: fast.Silence, Patience: time.Hour})
	stream, err := c.Prompt(t.Context(), &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for chunk, failed := range stream.Chunks() {
		text += chunk.GetText()
		c.settings.Patience = 0 // with whoever answers no more
		err = failed
	}
	if text != "0 " || code(err) != CodeInterrupted || !strings.Contains(err.Error(), "before token 1") {
		t.Errorf("got %q, error %v", text, err)
	}
}

func TestConnectionClosed(t *testing.T) {
	server := startServer(t)
	nc := connect(t, server)
	startFake(t, server, func(f *fake, _ *pb.Prompt) {}, nil)
	stream, err := New(nc, fast).Prompt(t.Context(), &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, _, err := read(stream); code(err) != CodeInterrupted {
		t.Errorf("got %v", err)
	}
}

// TestReconnect breaks the client's connection while chunks are sent.
func TestReconnect(t *testing.T) {
	server := startServer(t)
	const n = 50
	f := startFake(t, server, func(f *fake, p *pb.Prompt) { f.send(p.ReplyTo, p.RequestId, n, 0) },
		func(f *fake, to string, r *pb.Replay) { f.rest(to, r.RequestId, n, r.FromIndex) })
	nc := connect(t, server)
	patient := Settings{Silence: time.Minute} // only the reconnection can ask for the replay
	stream, err := New(nc, patient).Prompt(t.Context(), &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	text, last, err := read(stream)
	if err != nil || last == nil || strings.Count(text, " ") != n {
		t.Fatalf("got %q, end %v, error %v", text, last, err)
	}
	if _, replays, _ := f.counts(); replays == 0 {
		t.Error("no replay was asked for")
	}
}

// A connection that is away for longer than allowed ends what waits for it.
func TestOutage(t *testing.T) {
	server := startServer(t)
	startFake(t, server, func(f *fake, p *pb.Prompt) { f.send(p.ReplyTo, p.RequestId, 3, 0) }, nil)
	nc := connect(t, server)
	c := New(nc, Settings{Silence: 20 * time.Millisecond, Away: 50 * time.Millisecond})
	stream, err := c.Prompt(t.Context(), &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	server.Shutdown()
	if _, _, err := read(stream); code(err) != CodeInterrupted || !strings.Contains(err.Error(), "NATS has been away for") {
		t.Errorf("the stream ends with %v", err)
	}
	if _, err := c.Prompt(t.Context(), &pb.Prompt{Text: "hi"}); code(err) != CodeInterrupted || !strings.Contains(err.Error(), "NATS has been away for") {
		t.Errorf("the prompt ends with %v", err)
	}
}

func TestCancel(t *testing.T) {
	server := startServer(t)
	f := startFake(t, server, func(f *fake, p *pb.Prompt) { f.send(p.ReplyTo, p.RequestId, 9, 0) }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := New(connect(t, server), fast).Prompt(ctx, &pb.Prompt{Text: "hi", RequestId: "one"})
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range stream.Chunks() {
		if err != nil {
			if code(err) != CodeCancelled || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			continue
		}
		if c.Index == 0 {
			cancel()
		}
	}
	testkit.Eventually(t, "a cancellation", func() bool { _, _, cancelled := f.counts(); return cancelled == 1 })
	if f.cancelled[0] != "one" {
		t.Errorf("cancelled %v", f.cancelled)
	}
}

func TestResume(t *testing.T) {
	server := startServer(t)
	startFake(t, server, nil, func(f *fake, to string, r *pb.Replay) { f.rest(to, r.RequestId, 6, r.FromIndex) })
	stream, err := New(connect(t, server), fast).Resume(t.Context(), "one", 4)
	if err != nil {
		t.Fatal(err)
	}
	if text, _, err := read(stream); err != nil || text != "4 5 " || stream.RequestID() != "one" {
		t.Errorf("got %q, error %v", text, err)
	}
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	tests := []struct {
		name   string
		model  string
		prompt *pb.Prompt
		code   string
		want   string
	}{
		{"too large", "demo", &pb.Prompt{Text: long}, CodePayloadTooLarge, "takes at most 65536"},
		{"no such model", "other", &pb.Prompt{Text: "hi"}, CodeModelNotFound, `no replica serves model "other"`},
		{"unusable id", "demo", &pb.Prompt{Text: "hi", RequestId: "a.b"}, CodeBadRequest, "request_id"},
		{"queue is full", "full", &pb.Prompt{Text: "hi"}, CodeOverloaded, "full"},
		{"answered with a code", "busy", &pb.Prompt{Text: "hi"}, CodeModelNotReady, "layer 3 is cold"},
	}
	server := startServer(t)
	f := startFake(t, server, nil, nil)
	js, err := jetstream.New(f.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "FULL", Subjects: []string{"switchyard.prompt.full"}, Discard: jetstream.DiscardNew, MaxBytes: 1,
	}); err != nil {
		t.Fatal(err)
	}
	f.subscribe("switchyard.prompt.busy", func(m *nats.Msg) {
		if err := m.Respond([]byte(`{"error":{"code":503,"description":"model_not_ready: layer 3 is cold"}}`)); err != nil {
			t.Error(err)
		}
	})
	nc := connect(t, server)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			settings := fast
			settings.Model = tt.model
			settings.Silence = time.Second
			_, err := New(nc, settings).Prompt(t.Context(), tt.prompt)
			if code(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s with %q", err, tt.code, tt.want)
			}
		})
	}
	if prompts, _, _ := f.counts(); prompts != 0 {
		t.Errorf("%d prompts arrived", prompts)
	}
}

func TestUnreadableChunk(t *testing.T) {
	server := startServer(t)
	startFake(t, server, func(f *fake, p *pb.Prompt) {
		if err := f.nc.Publish(p.ReplyTo, []byte("\xff\xff")); err != nil {
			t.Error(err)
		}
	}, nil)
	if _, _, err := read(ask(t, server, &pb.Prompt{Text: "hi"})); code(err) != CodeInternal {
		t.Errorf("got %v", err)
	}
}

// TestTrace wants the trace on the prompt's message.
func TestTrace(t *testing.T) {
	server := startServer(t)
	f := startFake(t, server, func(f *fake, p *pb.Prompt) { f.rest(p.ReplyTo, p.RequestId, 1, 0) }, nil)
	got := make(chan string, 1)
	f.subscribe(f.subjects.Prompt(), func(m *nats.Msg) { got <- m.Header.Get("traceparent") })
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	settings := fast
	settings.Inject = func(_ context.Context, h nats.Header) { h.Set("traceparent", "00-1-2-01") }
	stream, err := New(connect(t, server), settings).Prompt(t.Context(), &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(stream); err != nil || <-got != "00-1-2-01" {
		t.Errorf("no trace, error %v", err)
	}
}

// Whose a prompt is stands in its subject; what is no flow is not sent.
func TestFlow(t *testing.T) {
	server := startServer(t)
	f := startFake(t, server, func(f *fake, p *pb.Prompt) { f.rest(p.ReplyTo, p.RequestId, 1, 0) }, nil)
	got := make(chan string, 1)
	f.subscribe("switchyard.prompt.*.*.*", func(m *nats.Msg) { got <- m.Subject })
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	settings := fast
	settings.Tenant, settings.Class = "acme", schemas.ClassHigh
	stream, err := New(connect(t, server), settings).Prompt(t.Context(), &pb.Prompt{Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(stream); err != nil || <-got != "switchyard.prompt.demo.acme.high" {
		t.Errorf("published elsewhere, error %v", err)
	}
	settings.Class = "urgent"
	if _, err := New(connect(t, server), settings).Prompt(t.Context(), &pb.Prompt{Text: "hi"}); code(err) != CodeBadRequest {
		t.Errorf("error %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	for said, want := range map[float64]time.Duration{
		0: 0, 1.5: 1500 * time.Millisecond, -1: 0, math.NaN(): 0, math.Inf(1): time.Hour, 1e300: time.Hour, 1e-300: 0,
	} {
		var e *Error
		if err := Failure(&pb.Chunk{Error: &pb.Error{Code: CodeOverloaded, RetryAfter: said}}); !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("%v s became %+v, want %v", said, e, want)
		}
	}
}

func code(err error) string {
	var typed *Error
	if errors.As(err, &typed) {
		return typed.Code
	}
	return ""
}
