package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/dlq"
)

// graves is a server with dead letters.
type graves struct {
	t       *testing.T
	url     string
	conn    *bus.Conn
	streams schemas.Streams
}

func newGraves(t *testing.T) *graves {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: srv.URL()}, bus.Settings{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	g := &graves{t, srv.URL(), conn, schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}}
	if err := conn.Ensure(t.Context(), 1, g.streams.Durable()...); err != nil {
		t.Fatal(err)
	}
	return g
}

// bury stores the letter of a prompt.
func (g *graves) bury(body string, headers ...*pb.DeadHeader) {
	g.t.Helper()
	letter := &pb.DeadLetter{
		Version: schemas.Version, Stream: g.streams.Prompts().Name, Subject: g.streams.Subjects.Prompt(), Sequence: 7,
		Reason: "crash", Error: "it \x1b[2J went away", Deliveries: 4, Headers: headers, Body: []byte(body),
	}
	if _, err := g.conn.Store(g.t.Context(), g.streams.Subjects.Dead("prompt")+".crash", letter, nil); err != nil {
		g.t.Fatal(err)
	}
}

// dlq runs a command, and wants its exit code.
func (g *graves) dlq(code int, args ...string) result {
	g.t.Helper()
	got := invoke("", append([]string{"--nats", g.url, "dlq"}, args...)...)
	if got.Code != code {
		g.t.Errorf("%v: exit code %d, want %d\n%s%s", args, got.Code, code, got.Out, got.Err)
	}
	return got
}

// left are the letters that ls lists.
func (g *graves) left() (seqs []uint64) {
	g.t.Helper()
	for line := range strings.Lines(g.dlq(0, "ls", "--json").Out) {
		var l dlq.Letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			g.t.Fatal(err)
		}
		seqs = append(seqs, l.Seq)
	}
	return seqs
}

func TestDLQ(t *testing.T) {
	t.Parallel()
	g := newGraves(t)
	control := &pb.DeadHeader{Name: []byte("Nats-Expected-Last-Sequence"), Values: [][]byte{[]byte("99")}}
	g.bury(`{"request_id":"a","text":"x"}`, control)
	g.bury(`{"request_id":"used","text":"x"}`)
	g.bury("\xff\xfe")
	if _, err := g.conn.Store(t.Context(), g.streams.Subjects.Token("used"), &pb.Record{Format: schemas.RecordFormat}, nil); err != nil {
		t.Fatal(err)
	}
	if out := g.dlq(0, "ls").Out; strings.Count(out, "\n") != 4 || !strings.Contains(out, "crash") || strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	if out := g.dlq(0, "show", "1").Out; !strings.Contains(out, `"text":"x"`) || !strings.Contains(out, "Nats-Expected-Last-Sequence: 99") {
		t.Errorf("%q", out)
	}
	var shown dlq.Content
	if err := json.Unmarshal([]byte(g.dlq(0, "show", "--json", "3").Out), &shown); err != nil || string(shown.BodyB64) != "\xff\xfe" || shown.Deliveries != 4 {
		t.Errorf("%+v, %v", shown, err)
	}

	g.dlq(0, "retry", "1")
	m, err := g.conn.Last(t.Context(), g.streams.Prompts().Name, g.streams.Subjects.Prompt())
	if err != nil || string(m.Data) != `{"request_id":"a","text":"x"}` {
		t.Errorf("sent again: %q, %v", m.Data, err)
	}
	if got := g.dlq(1, "retry", "2"); !strings.Contains(got.Err, "another request_id") {
		t.Errorf("%q", got.Err)
	}
	if got := g.dlq(1, "retry", "3"); !strings.Contains(got.Err, "cannot be read") {
		t.Errorf("%q", got.Err)
	}
	g.dlq(0, "drop", "2")
	if left := g.left(); len(left) != 1 || left[0] != 3 {
		t.Errorf("left %v", left)
	}
	g.dlq(0, "drop", "--all")
	if left := g.left(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestDLQExits(t *testing.T) {
	t.Parallel()
	g := newGraves(t)
	g.bury(`{"request_id":"a"}`)
	for _, tc := range []struct {
		code int
		args []string
		says string
	}{
		{cli.ExitFailed, []string{"show", "0"}, "no letter 0"},
		{cli.ExitFailed, []string{"retry", "0"}, "no letter 0"},
		{cli.ExitFailed, []string{"show", "9"}, "no letter 9"},
		{cli.ExitFailed, []string{"retry", "9"}, "no letter 9"},
		{cli.ExitFailed, []string{"drop", "9"}, "no letter 9"},
		{cli.ExitFailed, []string{"drop", "0"}, "no letter 0"},
		{cli.ExitFailed, []string{"ls", "--model", "nobody"}, "no service of a model nobody"},
		{cli.ExitUsage, []string{"drop"}, "--all"},
		{cli.ExitUsage, []string{"drop", "1", "--all"}, "--all"},
		{cli.ExitUsage, []string{"drop", "0", "--all"}, "--all"},
		{cli.ExitUsage, []string{"show", "x"}, "seq"},
		{cli.ExitNoServer, []string{"ls", "--nats", "nats://127.0.0.1:1", "--connect-timeout", "100ms"}, "no connection"},
	} {
		if got := g.dlq(tc.code, tc.args...); !strings.Contains(got.Err, tc.says) {
			t.Errorf("%v: %q, want %q", tc.args, got.Err, tc.says)
		}
	}
	if left := g.left(); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

// A prompt without an id gets the letter's, so that operators who send it again at once send one request.
func TestDLQRetryNames(t *testing.T) {
	t.Parallel()
	g := newGraves(t)
	g.bury(`{"text":"x"}`)
	g.dlq(0, "retry", "1")
	state, err := g.conn.State(t.Context(), g.streams.Dead().Name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.conn.Last(t.Context(), g.streams.Prompts().Name, g.streams.Subjects.Prompt())
	if want := fmt.Sprintf(`{"request_id":"dlq-%x-1","text":"x"}`, state.Incarnation); err != nil || string(m.Data) != want {
		t.Errorf("sent again: %q, %v, want %q", m.Data, err, want)
	}
}

// A letter that cannot be sent again stays.
func TestDLQKeepsWhatItCannotSend(t *testing.T) {
	t.Parallel()
	g := newGraves(t)
	g.bury(`{"request_id":"a"}`)
	if err := g.conn.JetStream().DeleteStream(t.Context(), g.streams.Prompts().Name); err != nil {
		t.Fatal(err)
	}
	if got := invokePatiently(t, "--nats", g.url, "dlq", "retry", "1", "--connect-timeout", "200ms"); got.Code != cli.ExitFailed {
		t.Errorf("got %+v", got)
	}
	if left := g.left(); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}
