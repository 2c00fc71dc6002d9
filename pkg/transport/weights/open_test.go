package weights

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
)

// A store that is too slow to tell what it has keeps what it has.
func TestSlowIsNotAbsent(t *testing.T) {
	r := newRig(t, "mixtral")
	r.push(t)
	other := rigOn(t, r.conn, "qwen2_moe")
	other.store.patience = 1
	if err := (&pushing{Store: other.store}).checkIdentity(t.Context(), other.model.Hash); !errors.Is(err, ErrSlow) {
		t.Errorf("a push: %v", err)
	}
	if l, err := other.store.look(t.Context()); !errors.Is(err, ErrSlow) {
		t.Errorf("a look: %+v, %v", l, err)
	}
	if l, there := other.store.listed(t.Context()); !there || !strings.Contains(l.State(), "unknown: ") || l.Name != "m" {
		t.Errorf("in a list: %+v, %v", l, there)
	}
	if m, err := r.store.Manifest(t.Context()); err != nil || m.Model != r.model.Hash {
		t.Errorf("the model is gone: %v", err)
	}
}

// firstLine is a log that calls then some time after its first line: a second attempt is
// after half a second.
type firstLine struct {
	bytes.Buffer
	then func()
}

func (l *firstLine) Write(line []byte) (int, error) {
	if l.Len() == 0 {
		time.AfterFunc(800*time.Millisecond, l.then)
	}
	return l.Buffer.Write(line)
}

// Who opens a model waits for a slow store, and says so once.
func TestOpenWaits(t *testing.T) {
	r := newRig(t, "mixtral")
	r.push(t)
	r.store.patience = 1
	ctx, stop := context.WithTimeout(t.Context(), testkit.Patience)
	defer stop()
	logged := firstLine{then: stop}
	if _, err := r.store.open(ctx, slog.New(slog.NewTextHandler(&logged, nil))); err == nil || ctx.Err() == nil {
		t.Errorf("it was given up: %v", err)
	}
	if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, ErrSlow.Error()) || !strings.Contains(text, "nats stream info "+r.store.stream()) {
		t.Error(text)
	}
}

// Who does not wait hears that nobody answers.
func TestOpenOnce(t *testing.T) {
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	conn, err := bus.Connect(t.Context(), bus.Config{}, bus.Settings{InProcess: srv, Logger: log})
	srv.Shutdown()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	s := New(conn, schemas.DefaultPrefix, "m")
	s.patience = 50 * time.Millisecond
	if _, err := s.openOnce(ctx, log); !errors.Is(err, ErrSlow) {
		t.Error(err)
	}
}

// A file that cannot be read is waited for, and the log says once which and why.
func TestBadFilesAreTold(t *testing.T) {
	const file = "file.config.json"
	tests := []struct {
		name  string
		spoil func(t *testing.T, r *rig)
		want  error
	}{
		{"damaged", func(t *testing.T, r *rig) { r.spoil(t, file) }, ErrDamaged},
		{"missing", func(t *testing.T, r *rig) {
			if err := r.conn.Purge(t.Context(), r.store.stream(), r.store.chunks(r.object(t, file).Key)); err != nil {
				t.Fatal(err)
			}
		}, ErrMissing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "mixtral")
			r.push(t)
			man, err := r.store.Manifest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), testkit.Patience)
			defer stop()
			logged := firstLine{then: stop}
			m, err := model.FromStore(ctx, "m", man, borrowed{r.store}, slog.New(slog.NewTextHandler(&logged, nil)))
			if err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, r)
			if _, ok := m.File("config.json"); ok {
				t.Error("it was read")
			}
			text := logged.String()
			if strings.Count(text, "\n") != 1 || !strings.Contains(text, "object "+file+" of model m: "+tt.want.Error()) {
				t.Error(text)
			}
		})
	}
}

func TestList(t *testing.T) {
	r := newRig(t, "mixtral")
	r.push(t)
	half := New(r.conn, schemas.DefaultPrefix, "half")
	for _, s := range []*Store{half, New(r.conn, schemas.DefaultPrefix, "empty")} { // what nobody has pushed to is not listed
		if err := r.conn.EnsureObjects(t.Context(), 0, s.bucket); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.conn.StoreBytes(t.Context(), half.chunks("x"), []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	list, err := List(t.Context(), r.conn, schemas.DefaultPrefix)
	if err != nil || len(list) != 2 || list[0].Name != "half" || list[0].Whole || list[1].Model != r.model.Hash || list[1].Objects != len(r.contents) {
		t.Errorf("%+v, %v", list, err)
	}
	if l, there := New(r.conn, schemas.DefaultPrefix, "gone").listed(t.Context()); there {
		t.Errorf("%+v", l)
	}
	if list, err := List(t.Context(), r.conn, "other"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := r.store.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Remove(t.Context()); err == nil {
		t.Error("a model was removed twice")
	}
}
