package device_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

func tiny(t testing.TB) (*model.Model, *pool.Pool) {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(2)
	t.Cleanup(p.Close)
	return m, p
}

func TestFake(t *testing.T) {
	devicetest.Conform(t, func(_ testing.TB, s device.Settings) (device.Device, *devicetest.Faults) {
		f := devicetest.NewFake(1, 4, s)
		return f, f.Faults
	})
}

func TestCPU(t *testing.T) {
	m, p := tiny(t)
	devicetest.Conform(t, func(_ testing.TB, s device.Settings) (device.Device, *devicetest.Faults) {
		f := &devicetest.Faults{}
		return device.NewFaultyCPU(m, p, s, f.Begin), f
	})
}

// What is allocated stays within the budget at every moment, experts of
// different sizes drive out as many others as they need, and a refusal's room
// is what could have been had.
func TestAllocated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 50), 6, 6).Draw(t, "sizes")
		budget := rapid.Int64Range(1, 120).Draw(t, "budget")
		d := devicetest.NewSizedFake(1, 6, func(id forward.ExpertID) int64 { return sizes[id.Expert] }, device.Settings{Budget: budget})
		defer d.Close()
		held := map[int]*device.Ticket{}
		for _, e := range rapid.SliceOf(rapid.IntRange(0, 5)).Draw(t, "experts") {
			if held[e] != nil {
				held[e].Release()
				delete(held, e)
				continue
			}
			ticket := d.Load(t.Context(), forward.ExpertID{Expert: e}, 0)
			<-ticket.Done()
			room := budget
			for other := range held {
				room -= sizes[other]
			}
			var refused *device.RefusedError
			switch is := errors.As(ticket.Err(), &refused); {
			case is != (sizes[e] > room) || is && (refused.Need != sizes[e] || refused.Room != room):
				t.Fatalf("%d bytes with room for %d: %v", sizes[e], room, ticket.Err())
			case !is:
				held[e] = ticket
			}
			if live := d.Live(); live > budget || live != d.Memory().Used {
				t.Fatalf("%d bytes are allocated, %+v", live, d.Memory())
			}
		}
	})
}

// What computes with an expert keeps it, without a ticket: it is neither evicted
// nor room for a load.
func TestBorrowed(t *testing.T) {
	m, p := tiny(t)
	first, other := forward.ExpertID{}, forward.ExpertID{Expert: 1}
	size, err := forward.ExpertBytes(m, first)
	if err != nil {
		t.Fatal(err)
	}
	d := device.NewCPU(m, p, device.Settings{Budget: size})
	defer d.Close()
	ticket := d.Load(t.Context(), first, 0)
	if err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.Borrow(first) == nil || d.Borrow(other) != nil {
		t.Fatal("an expert is lent that is not warm, or not the one that is")
	}
	ticket.Release()
	var held *device.HeldError
	if err := d.Evict(first); !errors.As(err, &held) || held.Tickets != 0 {
		t.Fatalf("evicting while computing: %v", err)
	}
	var refused *device.RefusedError
	if err := d.Load(t.Context(), other, 0).Err(); !errors.As(err, &refused) || refused.Room != 0 {
		t.Fatalf("loading while computing: %v", err)
	}
	d.GiveBack(first)
	if err := d.Load(t.Context(), other, 0).Wait(t.Context()); err != nil || d.Borrow(first) != nil {
		t.Fatalf("the expert stays though nothing uses it: %v", err)
	}
}

// A load with a failing expert holds nothing.
func TestLoadAll(t *testing.T) {
	m, p := tiny(t)
	d := device.NewCPU(m, p, device.Settings{})
	defer d.Close()
	if err := device.LoadAll(t.Context(), d, m.Spec); err != nil {
		t.Fatal(err)
	}
	fake := devicetest.NewFake(m.Spec.Layers, m.Spec.Experts, device.Settings{})
	defer fake.Close()
	fake.Faults.Fail(forward.ExpertID{Layer: 1, Expert: 2}, device.ErrOutOfMemory)
	if err := device.LoadAll(t.Context(), fake, m.Spec); !errors.Is(err, device.ErrOutOfMemory) {
		t.Fatal(err)
	}
	for l := range m.Spec.Layers {
		for e := range m.Spec.Experts {
			id := forward.ExpertID{Layer: l, Expert: e}
			if st := d.State(id); st.Tickets != 1 {
				t.Errorf("%v is %+v", id, st)
			}
			if st := fake.State(id); st.Tickets != 0 {
				t.Errorf("%v is %+v after an error", id, st)
			}
		}
	}
}

// BenchmarkLayer is a layer's experts as a host computes a call: rows in, their sums out.
// Package cuda has the same of GPUs.
func BenchmarkLayer(b *testing.B) {
	m, p := tiny(b)
	d := device.NewCPU(m, p, device.Settings{})
	defer d.Close()
	if err := device.LoadAll(b.Context(), d, m.Spec); err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{1, 8, 32, 256, 2048} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			in := forward.Routed{X: make([]float32, rows*m.Spec.Hidden)}
			for i := range rows * m.Spec.TopK {
				in.Source, in.Expert, in.Weight = append(in.Source, uint32(i/m.Spec.TopK)), append(in.Expert, uint32((i/m.Spec.TopK+i%m.Spec.TopK)%m.Spec.Experts)), append(in.Weight, 0.5)
			}
			out, s := make([]float32, len(in.X)), &forward.ExpertScratch{}
			for b.Loop() {
				if err := forward.SumSlots(d, in, out, s, tensor.BF16, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkCompute is a dispatch's computation; parallel ones share experts.
func BenchmarkCompute(b *testing.B) {
	m, p := tiny(b)
	d := device.NewCPU(m, p, device.Settings{})
	defer d.Close()
	if err := device.LoadAll(b.Context(), d, m.Spec); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 4, 32, 256} {
		in := forward.Routed{X: make([]float32, 8*m.Spec.Hidden)}
		for i := range n {
			in.Source, in.Expert, in.Weight = append(in.Source, uint32(i%8)), append(in.Expert, uint32(i*7%4)), append(in.Weight, 0.5)
		}
		run := func(b *testing.B, next func() bool) {
			var s forward.ExpertScratch
			out := make([]float32, n*m.Spec.Hidden)
			for next() {
				if err := d.Compute(in, out, &s); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) { b.ReportAllocs(); run(b, b.Loop) })
		b.Run(fmt.Sprintf("parallel/entries=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { run(b, pb.Next) })
		})
	}
}
