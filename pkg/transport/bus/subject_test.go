package bus

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
)

func TestSubjects(t *testing.T) {
	long := strings.Repeat("a", maxSubject)
	for name, c := range map[string]struct {
		subject, reply string
		ok             bool
	}{
		"plain":            {"a.b-c_D.1", "", true},
		"system":           {"$JS.API.STREAM.INFO.S", "_INBOX.x.1", true},
		"other letters":    {"straße.日本", "", true},
		"long":             {long, "", true},
		"long with reply":  {long[1:], "a", true},
		"too long":         {long + "a", "", false},
		"together":         {long, "a", false},
		"empty":            {"", "", false},
		"empty token":      {"a..b", "", false},
		"begins with dot":  {".a", "", false},
		"ends with dot":    {"a.", "", false},
		"star":             {"a.*", "", false},
		"greater":          {"a.>", "", false},
		"space":            {"a b", "", false},
		"line":             {"a\r\nPUB b 0", "", false},
		"tab":              {"a\tb", "", false},
		"null":             {"a\x00", "", false},
		"delete":           {"a\x7f", "", false},
		"reply with space": {"a", "b c", false},
		"reply with star":  {"a", "*", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkSubject(c.subject, c.reply)
			var typed *SubjectError
			if (err == nil) != c.ok || err != nil && !errors.As(err, &typed) {
				t.Fatalf("error %v", err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

func FuzzSubject(f *testing.F) {
	f.Add("a.b", "c")
	f.Add("a..b\r\n", ">")
	f.Fuzz(func(t *testing.T, subject, reply string) {
		if checkSubject(subject, reply) != nil {
			return
		}
		if strings.ContainsAny(subject+reply, " \r\n\t*>") || subject == "" || len(subject)+len(reply) > maxSubject {
			t.Errorf("%q, %q", subject, reply)
		}
	})
}

// A subject made of what a message claims does not cost the connection.
func TestBadSubjectsCostNoConnection(t *testing.T) {
	r := newRig(t)
	letters := strings.Repeat("x", 5000)
	s := names(schemas.HopsAcked)
	for name, send := range map[string]func(subject string) error{
		"send":  func(to string) error { return r.conn.Send(r.ctx(), to, hidden(1), nil) },
		"store": func(to string) error { _, err := r.conn.Store(r.ctx(), to, hidden(1), nil); return err },
		"async": func(to string) error {
			return r.conn.StoreAsync(r.ctx(), to, nil, nil, func(uint64, error) { t.Error("done was called") })
		},
		"hop":   func(to string) error { return NewHop(r.conn, schemas.HopsAcked).Send(r.ctx(), to, hidden(1)) },
		"erase": func(to string) error { return r.conn.EraseKey(r.ctx(), "b", to) },
		"with a header": func(to string) error {
			return r.conn.SendBytes(r.ctx(), to, nil, nats.Header{"a": {letters}})
		},
	} {
		for _, subject := range []string{s.Subjects.Block(letters), s.Subjects.Block("a\r\nb"), s.Subjects.Block("*"), s.Subjects.Block("")} {
			var typed *SubjectError
			if err := send(subject); !errors.As(err, &typed) {
				t.Errorf("%s to %.40q: error %v", name, subject, err)
			}
		}
	}
	for _, name := range []string{letters, "a.b", "a b", "*", ""} {
		rc := receiver(s)
		rc.Name = name
		if _, err := NewHop(r.conn, schemas.HopsAcked).Receive(r.ctx(), rc, func(context.Context, *Msg) error { return nil }); err == nil {
			t.Errorf("a receiver is called %.40q", name)
		}
		if _, err := r.conn.Queue(r.ctx(), QueueSettings{Stream: s.Sequences(), Name: name}); err == nil {
			t.Errorf("a queue's consumer is called %.40q", name)
		}
		if err := r.conn.DeleteConsumer(r.ctx(), s.Hidden().Name, name); err == nil {
			t.Errorf("a consumer called %.40q was deleted", name)
		}
	}
	if err := r.conn.nc.Flush(); err != nil || r.obs.failed.Load() == 0 {
		t.Errorf("error %v, %d failures counted", err, r.obs.failed.Load())
	}
}

func BenchmarkCheckSubject(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := checkSubject("switchyard.expert.demo.12.5f2a9c0d1e", "_INBOX.cQxD5K9qJvJb3rZ1Ck6s4b.1f4"); err != nil {
			b.Fatal(err)
		}
	}
}
