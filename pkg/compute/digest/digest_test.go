package digest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// folder is a model's folder with one file, and caches beside it and elsewhere.
type folder struct {
	dir, path string
	settings  Settings
	hashed    int64 // bytes that the last sums hashed
}

func newFolder(t *testing.T) *folder {
	f := &folder{dir: t.TempDir()}
	f.path = filepath.Join(f.dir, "model.safetensors")
	f.settings = Settings{Caches: []string{filepath.Join(f.dir, "beside"), filepath.Join(t.TempDir(), "user", "cache")}}
	f.write(t, "norm", "large")
	return f
}

// write makes the file old enough to be cached.
func (f *folder) write(t *testing.T, norm, large string) {
	t.Helper()
	var b bytes.Buffer
	body := []byte(strings.Repeat(large, 2<<20/len(large)))
	tensors := []safetensors.Tensor{
		{Name: "norm", DType: safetensors.U8, Shape: []int{len(norm)}, Data: []byte(norm)},
		{Name: "large", DType: safetensors.U8, Shape: []int{len(body)}, Data: body},
	}
	if err := safetensors.Write(&b, tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f.date(t, time.Now().Add(-time.Hour))
}

func (f *folder) date(t *testing.T, when time.Time) {
	t.Helper()
	if err := os.Chtimes(f.path, when, when); err != nil {
		t.Fatal(err)
	}
}

// sums opens the file and hashes what is not known of it.
func (f *folder) sums(t *testing.T) map[string]Sum {
	t.Helper()
	file := f.open(t)
	f.hashed = 0
	s := f.settings
	s.Workers, s.Progress = 1, func(done, _ int64) { f.hashed = done }
	sums, err := Files(t.Context(), []File{file}, s)
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func (f *folder) open(t *testing.T) File {
	t.Helper()
	data, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := safetensors.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	file := File{Name: "model.safetensors", Path: f.path, Header: parsed.Header()}
	for _, name := range parsed.Names() {
		x, _ := parsed.Tensor(name)
		file.Tensors = append(file.Tensors, x)
	}
	return file
}

func TestCache(t *testing.T) {
	beside := func(f *folder) string { return f.settings.Caches[0] }
	tests := []struct {
		name   string
		change func(t *testing.T, f *folder)
		anew   bool // everything is hashed again
		same   bool // and gives what it gave before
	}{
		{"nothing", func(*testing.T, *folder) {}, false, true},
		{"other content", func(t *testing.T, f *folder) { f.write(t, "Norm", "Large"); f.date(t, time.Now().Add(-time.Minute)) }, true, false},
		{"other time", func(t *testing.T, f *folder) { f.date(t, time.Now().Add(-time.Minute)) }, true, true},
		{"other size", func(t *testing.T, f *folder) { f.write(t, "norms", "large") }, true, false},
		{"cache gone", func(t *testing.T, f *folder) { remove(t, beside(f)) }, true, true},
		{"cache damaged", func(t *testing.T, f *folder) { edit(t, beside(f), `{"m`, `{"M`) }, true, true},
		{"cache cut off", func(t *testing.T, f *folder) { truncate(t, beside(f), 100) }, true, true},
		{"cache of nothing", func(t *testing.T, f *folder) { truncate(t, beside(f), 0) }, true, true},
		{"digest made up", func(t *testing.T, f *folder) { forge(t, beside(f)) }, true, true},
		{"small content, same size and time", func(t *testing.T, f *folder) { f.write(t, "nOrm", "large") }, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFolder(t)
			before := f.sums(t)
			if f.hashed == 0 {
				t.Fatal("the first look hashes nothing")
			}
			fixed := time.Now().Add(-time.Hour)
			f.date(t, fixed)
			f.sums(t)
			tt.change(t, f)
			if tt.name == "small content, same size and time" {
				f.date(t, fixed)
			}
			after := f.sums(t)
			if got := f.hashed > 0; got != tt.anew {
				t.Errorf("hashed %d bytes anew", f.hashed)
			}
			if same := before["norm"] == after["norm"] && before["large"] == after["large"]; same != tt.same {
				t.Errorf("the same digests: %v", same)
			}
			if f.sums(t); f.hashed > 0 {
				t.Error("what was hashed anew is not kept")
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, path, old, now string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(now), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// forge writes a whole cache with the digest of the small tensor changed.
func forge(t *testing.T, path string) {
	t.Helper()
	files, err := readCache(path)
	if err != nil {
		t.Fatal(err)
	}
	files["model.safetensors"].Tensors["norm"] = Sum{1}
	c := &cache{paths: []string{path}, known: files}
	if err := c.write(); err != nil {
		t.Fatal(err)
	}
}

// A folder that cannot be written costs a cache elsewhere, or none, and no error.
func TestCachePlaces(t *testing.T) {
	f := newFolder(t)
	blocked := filepath.Join(f.path, "no folder") // beneath a file nothing can be made
	f.settings.Caches[0] = blocked
	f.sums(t)
	if f.sums(t); f.hashed > 0 {
		t.Error("the second place is not used")
	}
	f.settings.Caches = []string{blocked}
	f.sums(t)
	if f.sums(t); f.hashed == 0 {
		t.Error("digests come from nowhere")
	}
}

// What was written just now may be written again without another time.
func TestYoungFiles(t *testing.T) {
	f := newFolder(t)
	f.date(t, time.Now().Add(time.Hour)) // however slow this machine is
	f.sums(t)
	if f.sums(t); f.hashed == 0 {
		t.Error("a file that was just written was cached")
	}
}

// A file that changes while it is hashed has no digest.
func TestChangedWhileHashed(t *testing.T) {
	f := newFolder(t)
	s := f.settings
	s.Progress = func(int64, int64) { f.date(t, time.Unix(1, 0)) }
	if _, err := Files(t.Context(), []File{f.open(t)}, s); !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
}

func TestHashingEnds(t *testing.T) {
	f := newFolder(t)
	ctx, stop := context.WithCancel(t.Context())
	s := f.settings
	s.Workers, s.Progress = 1, func(int64, int64) { stop() }
	if _, err := Files(ctx, []File{f.open(t)}, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	short := f.open(t)
	truncate(t, f.path, 1000)
	if _, err := Files(t.Context(), []File{short}, Settings{}); err == nil || !strings.Contains(err.Error(), `tensor "large" of model.safetensors`) {
		t.Error(err)
	}
}

// The identity depends on all that a tensor is, and not on the order.
func TestIdentity(t *testing.T) {
	list := func(change func(a, b *Tensor)) []Tensor {
		l := []Tensor{{"a", safetensors.BF16, []int{2, 3}, Sum{1}}, {"b", safetensors.F32, []int{1}, Sum{2}}}
		change(&l[0], &l[1])
		return l
	}
	nothing := func(a, b *Tensor) {}
	want := Identity([]byte("{}"), list(nothing))
	if got := Identity([]byte("{}"), list(func(a, b *Tensor) { *a, *b = *b, *a })); got != want {
		t.Error("the order matters")
	}
	for name, other := range map[string]string{
		"config": Identity([]byte("{ }"), list(nothing)),
		"name":   Identity([]byte("{}"), list(func(a, _ *Tensor) { a.Name = "c" })),
		"type":   Identity([]byte("{}"), list(func(a, _ *Tensor) { a.DType = safetensors.F16 })),
		"shape":  Identity([]byte("{}"), list(func(a, _ *Tensor) { a.Shape = []int{3, 2} })),
		"sum":    Identity([]byte("{}"), list(func(a, _ *Tensor) { a.Sum = Sum{3} })),
	} {
		if other == want {
			t.Errorf("the %s does not matter", name)
		}
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add([]byte(cacheFormat + " " + Sum{}.String() + "\n{}"))
	f.Add([]byte(`{"model.safetensors":{"size":1,"tensors":{"a":"00"}}}`))
	f.Add([]byte(`{"model.safetensors":{"size":1,"changed":2,"header":"` + Sum{7}.String() + `","tensors":{"a":"` + Sum{}.String() + `"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := parseCache(data); err == nil {
			return
		}
		if _, err := parseCache(signed(data)); err == nil && !json.Valid(data) {
			t.Errorf("%.80q is a cache", data)
		}
	})
}

// signed puts the first line before a body.
func signed(body []byte) []byte { return append(firstLine(body), body...) }
