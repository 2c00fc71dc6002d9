package client

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// startServer runs a NATS server with JetStream until the test ends.
func startServer(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		MaxPayload: 64 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(testkit.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	return s
}

func connect(t testing.TB, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.Timeout(testkit.Patience), nats.ReconnectWait(5*time.Millisecond), nats.ReconnectJitter(0, 0), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// fake is a tokenizer service without a model: it answers a prompt, and each
// replay, with what the test says.
type fake struct {
	t        testing.TB
	nc       *nats.Conn
	subjects schemas.Subjects
	answer   func(f *fake, p *pb.Prompt)
	again    func(f *fake, to string, r *pb.Replay)

	mu        sync.Mutex
	prompts   []*pb.Prompt
	replays   []*pb.Replay
	cancelled []string
}

// startFake makes the stream of prompts and serves it.
func startFake(t testing.TB, s *server.Server, answer func(*fake, *pb.Prompt), again func(*fake, string, *pb.Replay)) *fake {
	t.Helper()
	f := &fake{t: t, nc: connect(t, s), subjects: schemas.NewSubjects(schemas.DefaultPrefix, DefaultModel), answer: answer, again: again}
	js, err := jetstream.New(f.nc)
	if err != nil {
		t.Fatal(err)
	}
	config := jetstream.StreamConfig{
		Name: "PROMPTS", Subjects: f.subjects.Prompts(), Storage: jetstream.MemoryStorage,
		Discard: jetstream.DiscardNew, MaxMsgs: 100,
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for _, subject := range f.subjects.Prompts() {
		f.subscribe(subject, f.onPrompt)
	}
	f.subscribe(f.subjects.Replay(), f.onReplay)
	f.subscribe(f.subjects.AnyCancel(), func(m *nats.Msg) {
		f.note(func() { f.cancelled = append(f.cancelled, schemas.LastToken(m.Subject)) })
	})
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fake) subscribe(subject string, handle nats.MsgHandler) {
	f.t.Helper()
	if _, err := f.nc.Subscribe(subject, handle); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) onPrompt(m *nats.Msg) {
	p := &pb.Prompt{}
	if err := proto.Unmarshal(m.Data, p); err != nil {
		f.t.Errorf("reading the prompt: %v", err)
		return
	}
	again := false // for want of an acknowledgement: the stream stores it once
	f.note(func() {
		if again = m.Reply != "" && slices.ContainsFunc(f.prompts, func(q *pb.Prompt) bool { return q.RequestId == p.RequestId }); !again {
			f.prompts = append(f.prompts, p)
		}
	})
	if !again && f.answer != nil {
		f.answer(f, p)
	}
}

func (f *fake) onReplay(m *nats.Msg) {
	r := &pb.Replay{}
	if err := proto.Unmarshal(m.Data, r); err != nil {
		f.t.Errorf("reading the replay request: %v", err)
		return
	}
	f.note(func() { f.replays = append(f.replays, r) })
	if f.again != nil {
		f.again(f, m.Reply, r)
	}
}

func (f *fake) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) counts() (prompts, replays, cancelled int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.prompts), len(f.replays), len(f.cancelled)
}

// send sends tokens; -1 stands for the end of an answer of length n.
func (f *fake) send(to, request string, n int32, indices ...int32) {
	for _, i := range indices {
		c := token(request, i)
		if i < 0 {
			c = end(request, n)
		}
		f.chunk(to, c)
	}
}

func (f *fake) chunk(to string, c *pb.Chunk) {
	body, err := proto.Marshal(c)
	if err != nil {
		f.t.Error(err)
		return
	}
	if err := f.nc.Publish(to, body); err != nil {
		f.t.Logf("publishing a chunk: %v", err)
	}
}

// refuseReplay sends the refusal of a replay.
func (f *fake) refuseReplay(to string, c *pb.Chunk) {
	body, err := proto.Marshal(c)
	if err != nil {
		f.t.Error(err)
		return
	}
	m := &nats.Msg{Subject: to, Data: body, Header: nats.Header{schemas.HeaderRefused: {"replay"}}}
	if err := f.nc.PublishMsg(m); err != nil {
		f.t.Logf("publishing a refusal: %v", err)
	}
}

// rest sends everything from an index on, in order.
func (f *fake) rest(to, request string, n, from int32) {
	for i := from; i < n; i++ {
		f.send(to, request, n, i)
	}
	f.send(to, request, n, -1)
}

func token(request string, i int32) *pb.Chunk {
	return &pb.Chunk{RequestId: request, Index: i, Text: strconv.Itoa(int(i)) + " ", TokenIds: []uint32{uint32(i)}}
}

func end(request string, n int32) *pb.Chunk {
	return &pb.Chunk{
		RequestId: request, Index: n - 1, FinishReason: "length",
		Usage: &pb.Usage{PromptTokens: 3, CompletionTokens: n},
	}
}

func scoreOf(request string, position int32) *pb.Chunk {
	return &pb.Chunk{RequestId: request, Index: -1, Score: &pb.Score{Position: position}}
}
