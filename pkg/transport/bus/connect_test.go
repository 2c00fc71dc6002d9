package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

func TestConfigRefusesPlain(t *testing.T) {
	cases := map[string]struct {
		cfg     Config
		refused bool
	}{
		"default":       {Config{}, false},
		"loopback":      {Config{URL: "nats://127.0.0.1:4222"}, false},
		"loopback six":  {Config{URL: "nats://[::1]:4222,localhost:1"}, false},
		"plain":         {Config{URL: "nats://example.org"}, true},
		"no scheme":     {Config{URL: "10.0.0.1:4222"}, true},
		"web socket":    {Config{URL: "ws://example.org"}, true},
		"one of them":   {Config{URL: "nats://localhost:1,nats://10.0.0.1:4222"}, true},
		"only creds":    {Config{URL: "nats://example.org", Creds: "x.creds"}, true},
		"tls":           {Config{URL: "tls://example.org"}, false},
		"own authority": {Config{URL: "nats://example.org", TLSCA: "ca.pem"}, false},
		"insecure":      {Config{URL: "nats://example.org", Insecure: true}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := c.cfg.resolve()
			if errors.Is(err, ErrCredentials) { // ca.pem does not exist: that is looked at later
				err = nil
			}
			if errors.Is(err, errInsecure) != c.refused || !c.refused && err != nil {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestConfigContext(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	if err := os.MkdirAll(filepath.Join(dir, "nats", "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := `{"url": "tls://yard.example.org:4222", "user": "u", "password": "p", "ca": "", "description": "x", "jetstream_domain": "hub", "jetstream_api_prefix": ""}`
	if err := os.WriteFile(filepath.Join(dir, "nats", "context", "yard.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, opts, err := Config{URL: "yard"}.resolve()
	if err != nil || settings.URL != "tls://yard.example.org:4222" || settings.Domain != "hub" {
		t.Fatalf("servers %q, domain %q, error %v", settings.URL, settings.Domain, err)
	}
	if over, _, err := (Config{URL: "yard", APIPrefix: "JS.other.API"}).resolve(); err != nil || over.Domain != "" || over.APIPrefix != "JS.other.API" {
		t.Errorf("the flag before the context: %+v, %v", over, err)
	}
	var o nats.Options
	for _, set := range opts {
		if err := set(&o); err != nil {
			t.Fatal(err)
		}
	}
	if o.User != "u" || o.Password != "p" {
		t.Errorf("user %q", o.User)
	}
	if _, _, err := (Config{URL: "other"}).resolve(); err == nil || !strings.Contains(err.Error(), "other.json") {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestConnectWaitsAndSaysSoOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	url := r.srv.URL()
	r.srv.Shutdown()
	started := make(chan struct{})
	logged := &firstLine{then: func() {
		go func() { defer close(started); r.startServer() }()
	}}
	c, err := Connect(r.ctx(), Config{URL: url}, Settings{Logger: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	c.Close()
	c.Close()
	if n := strings.Count(logged.String(), "\n"); n != 1 {
		t.Errorf("%d lines logged: %s", n, logged.String())
	}
}

// firstLine is a log that calls then at its first line.
type firstLine struct {
	bytes.Buffer
	then func()
}

func (l *firstLine) Write(line []byte) (int, error) {
	if l.Len() == 0 {
		l.then()
	}
	return l.Buffer.Write(line)
}

func TestConnectGivesUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := Connect(ctx, Config{URL: "127.0.0.1:1"}, Settings{Logger: quiet()})
	if !errors.Is(err, ErrNoConnection) {
		t.Errorf("error %v", err)
	}
}

func TestEnsureReportsDifferences(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsAcked)
	specs := append(s.Durable(), s.Tensors([]int{0, 1})...)
	for range 2 {
		if err := r.conn.Ensure(r.ctx(), 0, specs...); err != nil {
			t.Fatal(err)
		}
	}
	other := s.Tokens()
	other.MaxAge = time.Minute
	var mismatch *MismatchError
	if err := r.conn.Ensure(r.ctx(), 0, other); !errors.As(err, &mismatch) || len(mismatch.Differences) != 1 {
		t.Fatalf("error %v", err)
	}
	want := Difference{"test_TOKENS_m", "maximum age", "2h0m0s", "1m0s", ByChange, false}
	if mismatch.Differences[0] != want {
		t.Errorf("got %+v", mismatch.Differences)
	}
}

// A stream of an older version takes what it lacks; it loses no subject.
func TestEnsureAddsSubjects(t *testing.T) {
	r := newRig(t)
	now := names(schemas.HopsAcked).Prompts()
	before := now
	before.Subjects = now.Subjects[:1]
	for _, spec := range []schemas.StreamSpec{before, now, now} {
		if err := r.conn.Ensure(r.ctx(), 0, spec); err != nil {
			t.Fatal(err)
		}
	}
	var mismatch *MismatchError
	if err := r.conn.Ensure(r.ctx(), 0, before); !errors.As(err, &mismatch) || mismatch.Differences[0].Field != "subjects" {
		t.Errorf("error %v", err)
	}
}

// A stream of an older version, whose ids the server kept for two minutes, gets the window
// that is wanted, whatever else it holds.
func TestEnsureChangesTheWindowForCopies(t *testing.T) {
	r := newRig(t)
	now := names(schemas.HopsAcked).Prompts()
	before := now
	before.Copies = 0
	for _, tc := range []struct {
		spec schemas.StreamSpec
		want time.Duration
	}{{before, 2 * time.Minute}, {now, schemas.PromptCopies}, {before, schemas.PromptCopies}} {
		if err := r.conn.Ensure(r.ctx(), 0, tc.spec); err != nil {
			t.Fatal(err)
		}
		stream, err := r.conn.js.Stream(r.ctx(), now.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.CachedInfo().Config.Duplicates; got != tc.want {
			t.Errorf("copies are known for %v, want %v", got, tc.want)
		}
	}
}

func TestFullStreamSaysSo(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsAcked)
	small := s.Prompts()
	small.MaxBytes = 1000
	if err := r.conn.Ensure(r.ctx(), 1, small); err != nil {
		t.Fatal(err)
	}
	if _, err := r.conn.Store(r.ctx(), s.Subjects.Prompt(), hidden(2000), nil); !IsFull(err) {
		t.Errorf("error %v", err)
	}
}

// links records what becomes of connections.
type links struct {
	NoObserver
	mu  sync.Mutex
	all []Link
}

func (l *links) Linked(before, now Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.all); before != now && (n == 0 || l.all[n-1] == before) {
		l.all = append(l.all, now)
	}
}

func (l *links) seen() []Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// An observer hears what becomes of a connection, from its opening to its end.
func TestLinked(t *testing.T) {
	r, l := newRig(t), &links{}
	c := r.connect(l)
	r.restart()
	testkit.Eventually(t, "it is back", func() bool { return slices.Equal(l.seen(), []Link{Opening, Connected, Away, Connected}) })
	c.Close()
	if all := l.seen(); all[len(all)-1] != None {
		t.Errorf("%v", all)
	}
	refused := &links{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Connect(ctx, Config{URL: "nats://127.0.0.1:1"}, Settings{Observer: refused, Logger: quiet()}); err == nil {
		t.Error("it connected to nobody")
	}
	if all := refused.seen(); !slices.Equal(all, []Link{Opening, None}) {
		t.Errorf("%v", all)
	}
}

// A server that buckets cannot be on is refused by its version.
func TestTooOld(t *testing.T) {
	for version, old := range map[string]bool{"2.10.29": true, "2.9.0-RC.1": true, "1.4.1": true, "2.11.0": false, "2.15.2": false, "3.0.0": false, "mine": false, "": false} {
		err := tooOld(version)
		if (err != nil) != old || old && !strings.Contains(err.Error(), "the server is NATS "+version+"; Switchyard needs 2.11 or later") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// A password that is wrong is not told as a user that is missing.
func TestRefusedUser(t *testing.T) {
	for _, tc := range []struct {
		name string
		with contextFile
		want string
	}{
		{"none", contextFile{URL: "nats://h:4222"}, "the server wants a user: --creds names"},
		{"in the URL", contextFile{URL: "nats://u:wrong@h:4222"}, "the server knows no such user with this password, token or key"},
		{"a token in the second URL", contextFile{URL: "nats://h:4222, nats://token@h:4223"}, "the server knows no such user with this password"},
		{"of a context", contextFile{URL: "nats://h:4222", User: "u"}, "the server knows no such user with this password"},
	} {
		if err := tc.with.explain(nats.ErrAuthorization); !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
