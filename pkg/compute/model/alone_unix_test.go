//go:build unix

package model

import (
	"bytes"
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// guarded is data in memory of which only [from, to) may be read.
func guarded(t *testing.T, data []byte, from, to int) []byte {
	t.Helper()
	page := os.Getpagesize()
	if from%page != 0 || to%page != 0 || len(data)%page != 0 {
		t.Skipf("pages of %d bytes are larger than an expert", page)
	}
	mapped, err := unix.Mmap(-1, 0, len(data), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mapped); err != nil {
			t.Error(err)
		}
	})
	copy(mapped, data)
	for _, part := range [][]byte{mapped[:from], mapped[to:]} {
		if len(part) > 0 && unix.Mprotect(part, unix.PROT_NONE) != nil {
			t.Fatal("the pages cannot be guarded")
		}
	}
	return mapped
}

// An expert of stacked tensors loads by its own bytes alone.
func TestExpertAlone(t *testing.T) {
	const experts, expert, f, k = 4, 2, 512, 256
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	stored := append(mxStored(2*f, k, experts), numbered("t", experts, k, 2*f), numbered("r", experts, 2*f, k))
	for i := range stored {
		size := len(stored[i].Data) / experts
		stored[i].Data = guarded(t, stored[i].Data, expert*size, (expert+1)*size)
	}
	for name, at := range map[string]TensorRef{
		"mxfp4":       {Name: "w", Stacked: true, Dequant: MXFP4, Part: Part{1, 2, true}},
		"fused":       {Name: "t", Stacked: true, Transposed: true, Part: Part{0, 2, false}},
		"interleaved": {Name: "t", Stacked: true, Transposed: true, Part: Part{1, 2, true}},
		"rows":        {Name: "r", Stacked: true, Part: Part{1, 2, false}},
	} {
		r, err := resolve(at, Ref{Role: ExpertUp, Expert: expert}, []int{f, k}, experts, holding(stored...))
		if err != nil {
			t.Fatal(err)
		}
		if fault := reads(r); fault != nil {
			t.Errorf("%s: bytes of another expert are read: %v", name, fault)
		}
		r.expert--
		if reads(r) == nil {
			t.Errorf("%s: the guard does not work", name)
		}
	}
}

// reads takes the tensor's elements and scales and says what went wrong.
func reads(r *resolved) (fault any) {
	defer func() { fault = recover() }()
	bytes.Clone(r.tensor().Data)
	if r.at.Dequant == MXFP4 {
		bytes.Clone(r.gather(r.scales.Data))
	}
	return nil
}
