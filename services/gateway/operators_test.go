package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/apikeys"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

var operatorKeys = map[string]func(*apikeys.Key){
	"tenant":   func(*apikeys.Key) {},
	"reader":   func(k *apikeys.Key) { k.Right = apikeys.Read },
	"operator": func(k *apikeys.Key) { k.Right = apikeys.Operator },
	"former":   func(k *apikeys.Key) { k.Right, k.Expires = apikeys.Operator, time.Now().Add(-time.Hour) },
}

// Metrics tell of all tenants: others than operators do not learn that there are any.
func TestMetricsAreForOperators(t *testing.T) {
	d, _ := keyedDoor(t, &fake.Upstream{}, operatorKeys)
	for key, status := range map[string]int{"tenant": 404, "reader": 404, "operator": 200, "former": 401, "nobody": 401} {
		for _, method := range []string{"GET", "HEAD"} {
			w := as(d, key, method, "/metrics", "")
			if told := strings.Contains(w.Body.String(), "go_goroutines"); w.Code != status || told && status != 200 {
				t.Errorf("%s %s: %d %.200s", key, method, w.Code, w.Body)
			}
		}
	}
	if w := as(d, "operator", "POST", "/v1/chat/completions", hi+"}"); w.Code != 200 {
		t.Errorf("an operator asks: %d %s", w.Code, w.Body)
	}
	if w := ask(newDoor(t, &fake.Upstream{}), "GET", "/metrics", ""); w.Code != 200 {
		t.Errorf("without keys: %d", w.Code)
	}
}

// Which trace a request is in, and whether that is kept, a client decides only with an operator's key.
func TestTracesOfClients(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, tc := range []struct {
		key, flags string
		spans      int
		theirs     bool
	}{
		{"tenant", "01", 1, false}, {"tenant", "00", 1, false}, {"operator", "01", 1, true}, {"operator", "00", 0, false},
	} {
		for _, path := range []string{"chat", "message", "response", "background", "stream"} {
			tm, err := telemetry.Setup(t.Context(), telemetry.Config{ServiceName: "test"})
			if err != nil {
				t.Fatal(err)
			}
			spans := tracetest.NewSpanRecorder()
			tm.Record(spans)
			_, file := keyedDoor(t, &fake.Upstream{}, operatorKeys)
			d := NewDoor(DoorSettings{Config: Config{MaxBody: 1 << 20, MaxStreams: 8, MaxConns: 64, Stall: time.Hour, Keys: file}, Upstream: &fake.Upstream{}, Telemetry: tm, Logger: slog.New(slog.DiscardHandler)})
			if err := d.Open(); err != nil {
				t.Fatal(err)
			}
			w := as(d, tc.key, "POST", creating[path].path, creating[path].body, "Traceparent", "00-"+trace+"-b7ad6b7169203331-"+tc.flags)
			ended := spans.Ended()
			if w.Code != 200 || path != "background" && len(ended) != tc.spans {
				t.Fatalf("%s %s of %s: %d, %d spans", path, tc.flags, tc.key, w.Code, len(ended))
			}
			for _, s := range ended {
				if theirs := s.SpanContext().TraceID().String() == trace; theirs != tc.theirs || s.Parent().IsValid() != tc.theirs {
					t.Errorf("%s %s of %s: in the client's trace %v, parent %v", path, tc.flags, tc.key, theirs, s.Parent())
				}
			}
			_ = tm.Close()
		}
	}
}

// What fails here is told by the request's id alone, and the log has the cause.
func TestFaultsTellNothing(t *testing.T) {
	for name, fails := range map[string]error{
		"of a service":          &client.Error{Code: client.CodeInternal, Message: "reading /srv/secret/model.safetensors: no such file"},
		"with a cause":          &client.Error{Code: client.CodeInternal, Message: "reading a chunk", Cause: errors.New("open /srv/secret: permission denied")},
		"with an unknown code":  &client.Error{Code: "novel", Message: "dial 10.0.0.7:4222 from /srv/secret"},
		"of no code":            fmt.Errorf("stat: %w", &os.PathError{Op: "open", Path: "/srv/secret", Err: os.ErrPermission}),
		"of a service, in JSON": &client.Error{Code: client.CodeInternal, Message: `{"path":"/srv/secret"}`},
	} {
		for path, c := range creating {
			u := &fake.Upstream{Fails: fails}
			d := newDoor(t, u)
			var logged bytes.Buffer
			d.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			w := ask(d, "POST", c.path, c.body)
			id := w.Header().Get("X-Request-Id")
			if path == "background" { // its end is asked for
				continue
			}
			if said := w.Body.String(); strings.Contains(said, "secret") || strings.Contains(said, "10.0.0.7") || !strings.Contains(said, id) || !strings.Contains(said, "a fault of its own") {
				t.Errorf("%s, %s: %d %s", name, path, w.Code, said)
			}
			if log := logged.String(); !strings.Contains(log, "secret") || !strings.Contains(log, id) || strings.Count(log, "\n") != 1 {
				t.Errorf("%s, %s: the log has %s", name, path, log)
			}
		}
	}
}

// A keys file that is being written, or that cannot be read, takes nobody's key. One that says that there are no
// keys does.
func TestKeysHalfWritten(t *testing.T) {
	line := apikeys.HashOf("one")
	whole := fmt.Sprintf("# keys\n%x acme\n", line)
	for content, kept := range map[string]bool{
		"": true, "\n\n  \n": true, "\x00": true, "#": true, "# keys": true, whole[:40]: true, whole[:len(whole)-1]: true, whole[:len(whole)-6]: true, fmt.Sprintf("%x", apikeys.HashOf("two")): true,
		whole + "# and": true, "# no keys\n": false, "# keys\n# none\n": false, fmt.Sprintf("%x\n", apikeys.HashOf("two")): false,
	} {
		d, file := keyedDoor(t, &fake.Upstream{}, map[string]func(*apikeys.Key){"one": func(*apikeys.Key) {}})
		w := lifecycle.NewWatch("keys", d.keys.load, file)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Look(slog.New(slog.DiscardHandler), false)
		if got := as(d, "one", "GET", "/v1/models", "").Code; got == 200 != kept {
			t.Errorf("%q: %d", content, got)
		}
		if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		if w.Look(slog.New(slog.DiscardHandler), false); as(d, "one", "GET", "/v1/models", "").Code != 200 {
			t.Errorf("%q: the whole file does not count", content)
		}
	}
	d, file := keyedDoor(t, &fake.Upstream{}, map[string]func(*apikeys.Key){"one": func(*apikeys.Key) {}})
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil || d.keys.load() == nil || as(d, "one", "GET", "/v1/models", "").Code != 200 {
		t.Errorf("a folder in the file's place: %v", err)
	}
}

// The last key that is revoked is.
func TestLastKeyRevoked(t *testing.T) {
	d, file := keyedDoor(t, &fake.Upstream{}, map[string]func(*apikeys.Key){"one": func(*apikeys.Key) {}})
	id := apikeys.Key{Hash: apikeys.HashOf("one"), Flow: schemas.DefaultFlow()}.ID()
	err := apikeys.Edit(file, func(f *apikeys.File) error { _, err := f.Revoke(id); return err })
	if err = errors.Join(err, d.keys.load()); err != nil {
		t.Fatal(err)
	}
	if w := as(d, "one", "GET", "/v1/models", ""); w.Code != 401 {
		t.Errorf("%d", w.Code)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), "keys")); err != nil {
		t.Error(err)
	}
}
