package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// TestMain has commands wait for a server as long as a busy machine may take; those that are to
// give up say so themselves.
func TestMain(m *testing.M) {
	if err := os.Setenv("SWITCHYARD_CONNECT_TIMEOUT", testkit.Patience.String()); err != nil {
		panic(err)
	}
	testleaks.Main(m)
}

// fake is a NATS server with a service that answers prompts with the words of
// the prompt itself.
type fake struct {
	url    string
	server *server.Server
	nc     *nats.Conn
	js     jetstream.JetStream

	mu        sync.Mutex
	prompt    *pb.Prompt // the last one
	cancelled bool
}

// startFake serves model demo. A prompt that begins with "fail" ends in an
// error after its first word, and one that begins with "hang" does not end.
func startFake(t *testing.T) *fake {
	t.Helper()
	s := startNATS(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	f, err := &fake{url: s.ClientURL(), server: s}, error(nil)
	if f.nc, err = nats.Connect(f.url, nats.Timeout(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.nc.Close)
	if f.js, err = jetstream.New(f.nc, jetstream.WithDefaultTimeout(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	subjects := schemas.NewSubjects(schemas.DefaultPrefix, "demo")
	f.stream(t, "switchyard_PROMPTS_demo", subjects.Prompt())
	f.subscribe(t, subjects.Prompt(), f.answer)
	f.subscribe(t, subjects.AnyCancel(), func(*nats.Msg) { f.note(func() { f.cancelled = true }) })
	return f
}

// startNATS starts a NATS server on a free port, until the test ends.
func startNATS(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
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

func (f *fake) stream(t *testing.T, name, subject string) {
	t.Helper()
	config := jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Storage: jetstream.MemoryStorage}
	if _, err := f.js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) subscribe(t *testing.T, subject string, handle nats.MsgHandler) {
	t.Helper()
	if _, err := f.nc.Subscribe(subject, handle); err != nil {
		t.Fatal(err)
	}
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) note(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) last() *pb.Prompt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.prompt
}

func (f *fake) wasCancelled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancelled
}

func (f *fake) answer(m *nats.Msg) {
	p := &pb.Prompt{}
	if proto.Unmarshal(m.Data, p) != nil {
		return
	}
	f.note(func() { f.prompt = p })
	if len(p.InputIds) > 0 {
		f.send(p, &pb.Chunk{TokenIds: p.InputIds, FinishReason: "length"})
		return
	}
	words := strings.SplitAfter(p.Text, " ")
	switch {
	case strings.HasPrefix(p.Text, "hang"):
		f.send(p, &pb.Chunk{Text: words[0]})
		return
	case strings.HasPrefix(p.Text, "fail"):
		f.send(p, &pb.Chunk{Text: words[0]})
		f.send(p, &pb.Chunk{Index: -1, FinishReason: "error", Error: &pb.Error{Code: "deadline_exceeded", Message: "too slow"}})
		return
	}
	for i, word := range words {
		f.send(p, &pb.Chunk{Index: int32(i), Text: word, TokenIds: []uint32{uint32(i)}})
	}
	n := int32(len(words))
	f.send(p, &pb.Chunk{Index: n - 1, FinishReason: "length", Usage: &pb.Usage{CompletionTokens: n}})
}

func (f *fake) send(p *pb.Prompt, c *pb.Chunk) {
	c.RequestId = p.RequestId
	body, err := proto.Marshal(c)
	if err == nil {
		_ = f.nc.Publish(p.ReplyTo, body) // what is lost fails the test
	}
}

// patient lets commands take their time to connect, and services to end.
var patient = cli.Waits{Dial: testkit.Patience, Drain: testkit.Patience}

// result is what a command did.
type result struct {
	Code     int
	Out, Err string
}

// invoke runs a command line against the fake.
func (f *fake) invoke(stdin string, args ...string) result {
	return invoke(stdin, append([]string{"--nats", f.url}, args...)...)
}

func invoke(stdin string, args ...string) result {
	var out bytes.Buffer
	var errOut sharedText
	code := run(args, cli.Stdio{In: strings.NewReader(stdin), Out: &out, Err: &errOut})
	return result{code, out.String(), errOut.String()}
}

// invokePatiently is invoke of what has a short --connect-timeout, which is for other
// things than connecting, too: that may take its time.
func invokePatiently(t *testing.T, args ...string) result {
	var out bytes.Buffer
	var errOut sharedText
	code := runWaiting(t.Context(), args, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut}, patient)
	return result{code, out.String(), errOut.String()}
}

// parse reads a command line into c.
func parse(c *CLI, args []string, std cli.Stdio) (*kong.Context, error) {
	p := program
	p.New = func() (grammar any, globals *cli.Globals, more []any) {
		c.Services = serviceCommands()
		return c, &c.Globals, c.Services
	}
	parsed, _, err := p.Parse(args, std)
	return parsed, err
}

// quietEnv is that of a command that says nothing.
func quietEnv() *cli.Env {
	return &cli.Env{Globals: cli.Globals{Prefix: schemas.DefaultPrefix}, Stdio: cli.Stdio{Out: io.Discard, Err: io.Discard}, Log: slog.New(slog.DiscardHandler)}
}

// startUp is what "up" runs, on one thread and without a control loop unless set says
// otherwise.
func startUp(t *testing.T, set func(*up.Cmd)) clustertest.Cluster {
	t.Helper()
	s, err := up.InProcess(t.Context(), quietEnv(), func(c *up.Cmd) {
		c.Threads = 1
		set(c)
	})
	if err != nil {
		t.Fatal(err)
	}
	return clustertest.Run(t, s)
}

// interrupting is a signal in the middle of a command: after its first result.
type interrupting struct {
	told   bytes.Buffer
	signal context.CancelFunc
}

func (w *interrupting) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("a model is opened")) { // which every service tells first
		w.signal()
	}
	return w.told.Write(p)
}

// run runs the command line and returns the exit code.
func run(args []string, std cli.Stdio) int { return program.Run(args, std) }

// runUntil runs the command line; the end of ctx is what a signal is.
func runUntil(ctx context.Context, args []string, std cli.Stdio) int {
	return program.RunUntil(ctx, args, std)
}

// runWaiting is runUntil with bounds of its own for what the command waits for.
func runWaiting(ctx context.Context, args []string, std cli.Stdio, w cli.Waits) int {
	return program.RunWaiting(ctx, args, std, w)
}
