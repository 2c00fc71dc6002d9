//go:build unix

package forward

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// A file that is cut while several threads pack of it is an error that names it.
func TestCutFileShared(t *testing.T) {
	dir := wideModel(t, 2, 1, 256, 1024)
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // only read
	p, here, all := threads(t), atomic.Int32{}, make(chan struct{})
	by := cpu.Packer{Run: safetensors.Shared(func(n int, f func(int)) {
		p.Spare(n, func(i int) {
			if here.Add(1) == 2 {
				close(all)
			}
			<-all // both threads pack a piece
			f(i)
		})
	})}
	load := func() error {
		return safetensors.Guarded(func() error {
			_, err := LoadExpertBy(t.Context(), by, m, ExpertID{})
			return err
		})
	}
	if err := load(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 1); err != nil {
		t.Fatal(err)
	}
	here.Store(0)
	all = make(chan struct{})
	if err := load(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v", err)
	}
}
