package cuda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
)

// Each device gets the images that run on it, or an error that names those there are.
func TestImages(t *testing.T) {
	all := cuda.Images{}
	for _, source := range []string{"experts", "rows"} {
		for _, suffix := range []string{".sm_80.cubin", ".sm_90a.cubin", ".compute_80.ptx"} {
			all[source+suffix] = []byte(source + suffix)
		}
	}
	withoutPTX := cuda.Images{"experts.sm_80.cubin": {1}, "experts.sm_90a.cubin": {1}}
	for _, tt := range []struct {
		arch   cuda.Arch
		images cuda.Images
		suffix string // empty: none fits
	}{
		{cuda.Arch{Major: 9}, all, ".sm_90a.cubin"},
		{cuda.Arch{Major: 8}, all, ".sm_80.cubin"},
		{cuda.Arch{Major: 8, Minor: 9}, all, ".sm_80.cubin"},
		{cuda.Arch{Major: 10}, all, ".compute_80.ptx"},
		{cuda.Arch{Major: 12}, all, ".compute_80.ptx"},
		{cuda.Arch{Major: 7, Minor: 5}, all, ""},
		{cuda.Arch{Major: 10}, withoutPTX, ""},
		{cuda.Arch{Major: 9}, nil, ""},
	} {
		d := &loads{Device: fake.New(fake.Settings{Info: cuda.Info{Name: "gpu", Arch: tt.arch, Memory: 1}})}
		_, err := tt.images.Open(d)
		var arch *cuda.ArchError
		switch {
		case tt.suffix == "":
			if !errors.As(err, &arch) || arch.Have != tt.arch {
				t.Errorf("%v: %v", tt.arch, err)
			}
		case err != nil || !slices.Equal(d.loaded, []string{"experts" + tt.suffix, "rows" + tt.suffix}):
			t.Errorf("%v loads %q, %v", tt.arch, d.loaded, err)
		}
	}
}

// loads notes what is loaded.
type loads struct {
	*fake.Device
	loaded []string
}

func (l *loads) Load(image []byte) (cuda.Module, error) {
	l.loaded = append(l.loaded, string(image))
	return l.Device.Load(image)
}

// A kernel is found in whichever image it is; one that is in none is an error.
func TestKernels(t *testing.T) {
	d := fake.New(fake.Settings{Kernels: map[string]fake.Kernel{"a": func(*fake.Memory, *cuda.Launch) {}}})
	m, err := cuda.Images{"x.sm_90a.cubin": {1}, "y.sm_90a.cubin": {2}}.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := m.Kernel("a", 0); err != nil || k.Name() != "a" {
		t.Error(k, err)
	}
	if _, err := m.Kernel("b", 0); !errors.Is(err, cuda.ErrImage) || !strings.Contains(err.Error(), "the kernel b") {
		t.Error(err)
	}
}

// Pieces of an arena do not touch, and what does not fit is refused with both numbers.
func TestArena(t *testing.T) {
	d := fake.New(fake.Settings{Info: cuda.Info{Name: "gpu", Memory: 10_000}})
	a, err := cuda.NewArena(d, 5_000, "a test")
	if err != nil {
		t.Fatal(err)
	}
	one, err := a.Take(100, "a piece")
	other, err2 := a.Take(1, "a piece")
	if err := errors.Join(err, err2); err != nil || other-one != cuda.Align || a.Rest() != 5_000-2*cuda.Align {
		t.Fatalf("pieces at %d and %d, %d left, %v", one, other, a.Rest(), err)
	}
	var room *cuda.RoomError
	if _, err := a.Take(4_500, "a large piece"); !errors.As(err, &room) || *room != (cuda.RoomError{What: "a large piece", Need: 4_608, Rest: 4_488, Size: 5_000}) || !errors.Is(err, cuda.ErrMemory) {
		t.Errorf("%v", err)
	}
	if _, err := a.Slots(5_000, "a slot"); !errors.As(err, &room) {
		t.Errorf("%v", err)
	}
	s, err := a.Slots(1_000, "a slot")
	if err != nil || s.Count() != 4 || s.Size() != 1_024 {
		t.Fatalf("%+v, %v", s, err)
	}
	taken := map[cuda.Ptr]bool{}
	for range 4 {
		p, ok := s.Take()
		if !ok || taken[p] || p < other || p >= one+5_000 {
			t.Fatalf("slot %d, %v", p, ok)
		}
		taken[p] = true
	}
	if p, ok := s.Take(); ok {
		t.Fatalf("a fifth slot %d", p)
	}
	s.Give(one)
	if p, ok := s.Take(); !ok || p != one {
		t.Errorf("%d, %v", p, ok)
	}
	var short *cuda.MemoryError
	if _, err := cuda.NewArena(d, 5_001, "another host"); !errors.As(err, &short) || short.Need != 5_001 || short.Free != 5_000 || short.Total != 10_000 {
		t.Errorf("%v", err)
	}
}

// Apart from one another, pieces are allocations that all go with the arena.
func TestArenaApart(t *testing.T) {
	d := fake.New(fake.Settings{Info: cuda.Info{Name: "gpu", Memory: 10_000}})
	before, err := d.Free()
	if err != nil {
		t.Fatal(err)
	}
	a, err := cuda.NewArena(cuda.Apart{Driver: d}, 5_000, "a test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Take(100, "a piece"); err != nil {
		t.Fatal(err)
	}
	if s, err := a.Slots(1_000, "a slot"); err != nil || s.Count() != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	if free, err := d.Free(); err != nil || before-free < 4_100 || before-free >= 5_000 {
		t.Errorf("%d of %d bytes are free, %v", free, before, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if free, err := d.Free(); err != nil || free != before {
		t.Errorf("%d of %d bytes are free in the end, %v", free, before, err)
	}
}

// What the driver says is of the kind that decides what the host does.
func TestErrors(t *testing.T) {
	kinds := map[string]error{"memory": cuda.ErrMemory, "image": cuda.ErrImage, "launch": cuda.ErrLaunch, "lost": cuda.ErrLost, "graph": cuda.ErrGraph}
	for code, kind := range map[int]string{
		2: "memory", 209: "image", 218: "image", 222: "image", 1: "launch", 701: "launch",
		700: "lost", 719: "lost", 214: "lost", 46: "lost", 702: "lost", 999: "lost", 803: "none", 900: "graph", 901: "graph", 908: "graph",
	} {
		err := error(&cuda.Error{Call: "cuCall", Code: code})
		for name, k := range kinds {
			if errors.Is(err, k) != (name == kind) {
				t.Errorf("code %d is of kind %s: %v", code, name, name != kind)
			}
		}
		if !strings.Contains(err.Error(), "cuCall answered CUDA_ERROR_") {
			t.Error(err)
		}
	}
}
