package weights

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// rig is a server, and a model in a folder.
type rig struct {
	conn     *bus.Conn
	store    *Store
	model    *model.Model
	contents []model.Content
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	return rigOn(t, testserver.Connect(t), name)
}

// rigOn is a rig on a server that others use, too.
func rigOn(t *testing.T, conn *bus.Conn, name string) *rig {
	t.Helper()
	return rigOf(t, conn, goldens.Dir(name))
}

// rigOf is a rig with the model of any folder.
func rigOf(t *testing.T, conn *bus.Conn, dir string) *rig {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // only read
	contents, err := m.Contents()
	if err != nil {
		t.Fatal(err)
	}
	return &rig{conn: conn, store: New(conn, schemas.DefaultPrefix, "m"), model: m, contents: contents}
}

func (r *rig) push(t *testing.T) (before int64) {
	t.Helper()
	err := r.store.Push(t.Context(), r.model.Hash, r.model.Digests(), r.contents, PushSettings{
		Progress: func(_, b, _ int64) { before = b },
	})
	if err != nil {
		t.Fatal(err)
	}
	return before
}

// open opens the model from the store, over the rig's connection.
func (r *rig) open(t *testing.T) *model.Model {
	t.Helper()
	m, err := r.store.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stored, err := model.FromStore(t.Context(), "m", m, borrowed{r.store}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// borrowed leaves the connection open.
type borrowed struct{ *Store }

func (borrowed) Close() error { return nil }

// What comes from the store is the folder's, to the byte.
func TestRoundTrip(t *testing.T) {
	conn := testserver.Connect(t)
	dirs := []string{withTemplates(t)}
	for _, name := range goldens.Names() {
		dirs = append(dirs, goldens.Dir(name))
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			r := rigOf(t, conn, dir)
			r.store = New(conn, schemas.DefaultPrefix, name)
			r.push(t)
			m := r.open(t)
			if m.Hash != r.model.Hash || m.Bytes != r.model.Bytes || m.Spec.Parameters() != r.model.Spec.Parameters() {
				t.Errorf("%s of %d bytes became %s of %d", r.model.Hash, r.model.Bytes, m.Hash, m.Bytes)
			}
			with := m.With(t.Context())
			for ref := range m.Spec.Refs() {
				a, err := with.Tensor(ref)
				if err != nil {
					t.Fatal(err)
				}
				b, _ := r.model.Tensor(ref)
				if !bytes.Equal(a.Data, b.Data) || !slices.Equal(a.Shape, b.Shape) || a.DType != b.DType {
					t.Fatalf("%v differs", ref)
				}
				x, err := with.Floats(ref)
				if y, _ := r.model.Floats(ref); err != nil || !slices.Equal(x, y) { // of packed types with their scales
					t.Fatalf("%v has other numbers, %v", ref, err)
				}
			}
			for _, file := range []string{"config.json", "chat_template.jinja", toolTemplate} {
				want, has := r.model.File(file)
				if got, ok := m.File(file); ok != has || !bytes.Equal(got, want) {
					t.Errorf("%s is %q, not %q", file, got, want)
				}
			}
		})
	}
}

const toolTemplate = "chat_templates/tool_use.jinja"

// withTemplates is a folder with files of which some have names that no object has.
func withTemplates(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "templates")
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir("mixtral"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "chat_templates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chat_template.jinja", toolTemplate, "read me.txt", "grün.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// spoil changes the first chunk of an object.
func (r *rig) spoil(t *testing.T, name string) {
	t.Helper()
	o := r.object(t, name)
	subject := r.store.chunks(o.Key)
	first, err := r.conn.Last(t.Context(), r.store.stream(), subject)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(first.Data)
	bad[len(bad)/2] ^= 1
	if err := r.conn.Purge(t.Context(), r.store.stream(), subject); err != nil {
		t.Fatal(err)
	}
	if _, err := r.conn.StoreBytes(t.Context(), subject, bad, nil); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) object(t *testing.T, name string) digest.Object {
	t.Helper()
	m, err := r.store.Manifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(m.Objects, func(o digest.Object) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("the manifest lists no object %q", name)
	}
	return m.Objects[i]
}

// What is wrong with the store is an error of its own, with object and model.
func TestFailures(t *testing.T) {
	const expert = "expert.1.2"
	tests := []struct {
		name  string
		spoil func(t *testing.T, r *rig)
		want  error
	}{
		{"damaged", func(t *testing.T, r *rig) { r.spoil(t, expert) }, ErrDamaged},
		{"missing", func(t *testing.T, r *rig) {
			if err := r.conn.Purge(t.Context(), r.store.stream(), r.store.chunks(r.object(t, expert).Key)); err != nil {
				t.Fatal(err)
			}
		}, ErrMissing},
		{"removed", func(t *testing.T, r *rig) {
			if err := r.store.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, ErrMissing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "mixtral")
			r.push(t)
			m := r.open(t)
			ref := model.Ref{Role: model.ExpertUp, Layer: 1, Expert: 2}
			tt.spoil(t, r)
			_, err := m.With(t.Context()).Tensor(ref)
			var object *ObjectError
			if !errors.Is(err, tt.want) || !errors.As(err, &object) || object.Object != expert || object.Model != "m" {
				t.Fatal(err)
			}
			if before := r.push(t); tt.name == "missing" && before == 0 {
				t.Error("everything was sent again")
			}
			if errors.Is(tt.want, ErrDamaged) { // which a push does not look for
				return
			}
			if _, err := m.With(t.Context()).Tensor(ref); err != nil {
				t.Errorf("pushed again: %v", err)
			}
		})
	}
}

// A store that does not answer is given up after a while, or when the caller says so.
func TestSilence(t *testing.T) {
	r := newRig(t, "mixtral")
	r.push(t)
	o := r.object(t, "expert.0.0")
	lost := o
	lost.Chunks++ // never comes
	r.store.patience = 100 * time.Millisecond
	if _, _, err := r.store.collect(t.Context(), lost, nil); !errors.Is(err, ErrSlow) {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := r.store.Read(ctx, o, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := New(r.conn, schemas.DefaultPrefix, "nobody").Manifest(t.Context()); !errors.Is(err, ErrNoModel) {
		t.Error(err)
	}
}

// A manifest's claims are bounded by what is there.
func TestClaims(t *testing.T) {
	r := newRig(t, "mixtral")
	r.push(t)
	o := r.object(t, "expert.0.0")
	o.Bytes = r.conn.MaxPayload() // which a chunk could have, and all together do not
	if err := r.store.present(t.Context(), o); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	o.Bytes = 1 << 40
	if _, err := r.store.Read(t.Context(), o, nil); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	o.Bytes = 10
	if _, err := r.store.Read(t.Context(), o, nil); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// The nats command line reads the same objects.
func TestObjectsAreNATS(t *testing.T) {
	r := newRig(t, "mixtral")
	r.push(t)
	bucket, err := r.conn.JetStream().ObjectStore(t.Context(), r.store.bucket)
	if err != nil {
		t.Fatal(err)
	}
	data, err := bucket.GetBytes(t.Context(), "file.config.json")
	if want, _ := r.model.File("config.json"); err != nil || !bytes.Equal(data, want) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func FuzzParseInfo(f *testing.F) {
	s := New(nil, schemas.DefaultPrefix, "m")
	data, err := s.encodeInfo(digest.Object{Name: "head", Key: strings.Repeat("a", 32), Bytes: 3, Chunks: 1}, 100)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("head", data)
	f.Add("head", []byte(`{"name":"head","nuid":"x.>","size":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		o, err := parseInfo(name, data)
		if err == nil && (o.Name != name || o.Bytes < 0 || strings.ContainsAny(o.Key, ".*> ")) {
			t.Errorf("%+v", o)
		}
	})
}
