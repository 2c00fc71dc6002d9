//go:build cuda

package real

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// inside names the test that a process runs which has a libcuda of its own: it has to
// be where the loader looks when the process starts.
const inside = "SWITCHYARD_TEST_CUDA"

// run runs a test anew with libcuda.c as the driver, and these settings of it.
func run(t *testing.T, test string, settings ...string) {
	t.Helper()
	dir := t.TempDir()
	library := filepath.Join(dir, "libcuda.so.1")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-o", library, "testdata/libcuda.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	again(t, test, append(settings, "LD_LIBRARY_PATH="+dir)...)
}

func again(t *testing.T, test string, settings ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+test+"$", "-test.count=1")
	c.Env = append(append(os.Environ(), inside+"="+test), settings...)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %v\n%s", settings, err, out)
	}
}

func isInside(test string) bool { return os.Getenv(inside) == test }

// What is wrong with a driver or a device is the error that says so. The test's own
// process has no driver at all, and has come so far.
func TestOpen(t *testing.T) {
	if isInside("TestOpen") {
		wrong(t)
		return
	}
	for _, tt := range []struct{ setting, want string }{
		{"", "*cuda.IndexError: there is no GPU 7: the CUDA driver shows 2, from cuda:0 to cuda:1"},
		{"FAKE_CUDA_DEVICES=0", "*cuda.IndexError: the CUDA driver shows no GPU"},
		{"FAKE_CUDA_VERSION=11080", "*cuda.OldDriverError: the CUDA driver speaks CUDA 11.8 and the kernels need 12.0"},
		{"FAKE_CUDA_INIT=803", "*cuda.NoDriverError: no CUDA driver works here (cuInit answered CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803))"},
	} {
		run(t, "TestOpen", tt.setting, "WANT="+tt.want)
	}
	again(t, "TestOpen", "LD_LIBRARY_PATH=/nowhere", "WANT=*cuda.NoDriverError: no CUDA driver works here (libcuda.so.1: cannot open")
}

// wrong opens a device that is not there.
func wrong(t *testing.T) {
	d, err := Open(7)
	if d != nil || err == nil {
		t.Fatal(d, err)
	}
	if got := kindOf(err) + ": " + err.Error(); !strings.HasPrefix(got, os.Getenv("WANT")) {
		t.Errorf("%s\nwant %s", got, os.Getenv("WANT"))
	}
}

func kindOf(err error) string {
	var driver *cuda.NoDriverError
	var old *cuda.OldDriverError
	var index *cuda.IndexError
	switch {
	case errors.As(err, &driver):
		return "*cuda.NoDriverError"
	case errors.As(err, &old):
		return "*cuda.OldDriverError"
	case errors.As(err, &index):
		return "*cuda.IndexError"
	}
	return "another"
}

// Every call comes to the driver as it was meant.
func TestCalls(t *testing.T) {
	if !isInside("TestCalls") {
		run(t, "TestCalls")
		return
	}
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	want := cuda.Info{
		Index: 1, Name: "fake 1", Arch: cuda.Arch{Major: 9}, Memory: 1 << 20, Shared: 227 << 10, Processors: 132, Driver: 12090, PCI: "0001:3b:01.0",
	}
	if d.Info() != want {
		t.Errorf("%+v", d.Info())
	}
	at, pinned := memory(t, d)
	s, e := streamOf(t, d)
	launch(t, d, s, at)
	if err := errors.Join(s.CopyOut(pinned, at), s.Record(e), e.Wait()); err != nil {
		t.Fatal(err)
	}
	for _, most := range []time.Duration{0, time.Minute} { // every second answer is no
		if passed, err := e.Poll(most); passed != (most > 0) || err != nil {
			t.Errorf("polled for %v: %v, %v", most, passed, err)
		}
	}
	var got []uint64
	for b := pinned; len(b) > 0; b = b[8:] {
		got = append(got, binary.LittleEndian.Uint64(b))
	}
	if want := []uint64{2, 3, 4, 5, 6, 7, 65536, 8, 1 << 40, 9}; !slices.Equal(got, want) {
		t.Errorf("the kernel stored %v, want %v", got, want)
	}
	if err := errors.Join(d.Unpin(pinned), d.Release(at), s.Close(), e.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

// memory allocates on both sides, and too much.
func memory(t *testing.T, d cuda.Driver) (cuda.Ptr, []byte) {
	t.Helper()
	at, err := d.Alloc(80)
	if err != nil || at == 0 {
		t.Fatal(at, err)
	}
	if free, err := d.Free(); err != nil || free != 1<<20-80 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	if _, err := d.Alloc(1 << 20); !errors.Is(err, cuda.ErrMemory) || !strings.Contains(err.Error(), "cuMemAlloc") {
		t.Errorf("too much memory: %v", err)
	}
	pinned, err := d.Pin(80)
	if err != nil || len(pinned) != 80 {
		t.Fatal(len(pinned), err)
	}
	if err := d.Unpin(make([]byte, 8)); err == nil {
		t.Error("memory is unpinned that was not pinned")
	}
	return at, pinned
}

func streamOf(t *testing.T, d cuda.Driver) (cuda.Stream, cuda.Event) {
	t.Helper()
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}

// launch finds a kernel in an image with zeros in it, and starts it.
func launch(t *testing.T, d cuda.Driver, s cuda.Stream, at cuda.Ptr) {
	t.Helper()
	if _, err := d.Load([]byte("another image")); !errors.Is(err, cuda.ErrImage) {
		t.Errorf("an image that is none: %v", err)
	}
	m, err := d.Load([]byte("kernels\x00!"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Kernel("another", 0); !errors.Is(err, cuda.ErrImage) {
		t.Errorf("a kernel that is not there: %v", err)
	}
	k, err := m.Kernel("store", 65536)
	if err != nil || k.Name() != "store" {
		t.Fatal(k, err)
	}
	l := &cuda.Launch{Kernel: k, Grid: [3]uint32{2, 3, 4}, Block: [3]uint32{5, 6, 7}, Shared: 8, Args: []uint64{uint64(at), 1 << 40, 9}}
	if err := s.Launch(l); err != nil {
		t.Fatal(err)
	}
	l.Args = make([]uint64, 33)
	if err := s.Launch(l); !errors.Is(err, cuda.ErrLaunch) {
		t.Errorf("more parameters than can be: %v", err)
	}
}

// A capture keeps launches with their parameters as they are, and what goes wrong with it leaves
// the stream as it was and nothing behind.
func TestGraphs(t *testing.T) {
	if isInside("TestGraphs") {
		captured(t)
		return
	}
	for setting, want := range map[string]string{
		"":                          "",
		"FAKE_CUDA_BEGIN=801":       "cuStreamBeginCapture answered an error (801)",
		"FAKE_CUDA_LAUNCH=701":      "a kernel was not started: cuLaunchKernel answered CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)",
		"FAKE_CUDA_END=901":         "launches were not made a graph: cuStreamEndCapture answered CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)",
		"FAKE_CUDA_INSTANTIATE=2":   "the GPU is out of memory: cuGraphInstantiate answered CUDA_ERROR_OUT_OF_MEMORY (2)",
		"FAKE_CUDA_UPLOAD=2":        "the GPU is out of memory: cuGraphUpload answered CUDA_ERROR_OUT_OF_MEMORY (2)",
		"CAPTURES=event":            "launches were not made a graph: cuEventRecord answered CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)",
		"CAPTURES=alloc":            "launches were not made a graph: cuMemAlloc answered CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)",
		"CAPTURES=event and forget": "launches were not made a graph: cuStreamEndCapture answered CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)",
	} {
		run(t, "TestGraphs", setting, "WANT="+want)
	}
}

// store launches the kernel that stores a number, whose parameters are gone afterwards.
func store(t *testing.T, d cuda.Driver, s cuda.Stream, at cuda.Ptr) func(n uint64) error {
	t.Helper()
	m, err := d.Load([]byte("kernels\x00!"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("store", 0)
	if err != nil {
		t.Fatal(err)
	}
	return func(n uint64) error {
		args := []uint64{uint64(at), n, n}
		defer clear(args)
		return s.Launch(&cuda.Launch{Kernel: k, Args: args})
	}
}

func captured(t *testing.T) {
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	at, pinned := memory(t, d)
	s, e := streamOf(t, d)
	launch := store(t, d, s, at)
	stores := func(what string, want uint64, err error) {
		t.Helper()
		err = errors.Join(err, s.CopyOut(pinned, at), s.Record(e), e.Wait())
		if got := binary.LittleEndian.Uint64(pinned[64:]); got != want || err != nil {
			t.Errorf("%s: there is %d, want %d, and %v", what, got, want, err)
		}
	}
	free := func() int64 {
		n, err := d.Free()
		if err != nil {
			t.Error(err)
		}
		return n
	}
	before := free()
	g, err := s.Capture(func() error {
		err := errors.Join(launch(1), launch(2))
		switch os.Getenv("CAPTURES") {
		case "event":
			return s.Record(e)
		case "event and forget":
			_ = s.Record(e)
		case "alloc":
			_, err = d.Alloc(8)
		}
		return err
	})
	if want := os.Getenv("WANT"); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
	stores("captured", 0, nil)
	stores("launched", 3, launch(3))
	if err == nil {
		stores("run", 2, s.Run(g))
		stores("closed", 2, g.Close())
	}
	if now := free(); now != before {
		t.Errorf("%d bytes are free, and were %d", now, before)
	}
}
