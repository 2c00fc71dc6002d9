package fleet

import (
	"os"
	"path/filepath"
	"testing"
)

// A program that starves cannot have more memory, and one that is fed can.
func TestStarve(t *testing.T) {
	for _, fed := range []bool{false, true} {
		wants := filepath.Join(t.TempDir(), "wants")
		p := Launch(t, "sh", "sh", "-c", `echo ready >&2
			while [ ! -e `+wants+` ]; do sleep 0.02; done
			x=$(head -c 32000000 /dev/zero | tr '\0' a) && echo has it >&2`)
		p.Await(t, "ready")
		if err := p.Starve(); err != nil {
			t.Fatal(err)
		}
		if fed {
			if err := p.Feed(); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(wants, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Says("has it"); (err == nil) != fed {
			t.Errorf("fed %v: %v", fed, err)
		}
	}
}

// A disk that is full takes nothing, and one that was freed does.
func TestDisk(t *testing.T) {
	d, err := NewDisk(t)
	if err != nil {
		t.Skip(err)
	}
	write := func() error { return os.WriteFile(filepath.Join(d.Dir(), "file"), make([]byte, 1<<20), 0o600) }
	if err := d.Fill(); err != nil {
		t.Fatal(err)
	}
	if write() == nil {
		t.Error("a full disk takes a file")
	}
	if err := d.Free(); err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Error(err)
	}
}
