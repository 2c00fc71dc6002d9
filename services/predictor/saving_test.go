package predictor

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// remember has a desk follow one step of a tenant.
func (d *desk) remember(number uint64, tenant string) {
	d.step(number, runs(tenant, 5)...)
	for _, layer := range d.layers {
		d.pass(number, layer, 1, number)
	}
}

// What a mapper has learnt the next one knows, and what was erased from the file both forget.
func TestSaving(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maps")
	d := newDesk(t, Maps{File: path})
	d.remember(1, "a")
	d.remember(2, "b")
	d.saving.look(d.store, time.Now())
	d.saving.writing.Wait()
	if n, err := mapfile.Forget(path, "a"); n != 1 || err != nil {
		t.Fatalf("%d maps, %v", n, err)
	}
	d.saving.look(d.store, time.Now())
	if d.store.Len("a") != 0 || d.store.Len("b") != 1 {
		t.Errorf("%d maps of a, %d of b", d.store.Len("a"), d.store.Len("b"))
	}
	d.remember(3, "b")
	d.saving.end(d.store)
	next := newDesk(t, Maps{File: path})
	if next.store.Len("a") != 0 || next.store.Len("b") != 2 {
		t.Errorf("%d maps of a, %d of b", next.store.Len("a"), next.store.Len("b"))
	}
	if saved, err := mapfile.Read(path); err != nil || saved.Digest() != d.store.Digest() {
		t.Errorf("the file has other maps: %v", err)
	}
}

// A damaged file is begun anew, and one of another model is refused and stays.
func TestSavingRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maps")
	if err := os.WriteFile(path, []byte(expertmap.Magic+"cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, Maps{File: path})
	d.remember(1, "a")
	d.saving.end(d.store)
	if _, err := mapfile.Read(path); err != nil {
		t.Error(err)
	}
	settings := d.store.Settings
	settings.Model = "another"
	other, err := expertmap.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := mapfile.Write(path, other); err != nil {
		t.Fatal(err)
	}
	dep := testdeployment.Open(t)
	if _, err := newMapper(dep, "p", Config{Distance: 1, Maps: Maps{Capacity: 3, File: path}}); err == nil {
		t.Error("maps of another model are taken in")
	}
	if s := (&saving{path: filepath.Join(path, "x", "y"), log: slog.New(slog.DiscardHandler)}); s.restore(other) != nil {
		t.Error("a file that cannot be is no reason to end")
	}
}
