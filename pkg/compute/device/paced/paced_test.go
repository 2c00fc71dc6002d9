package paced

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// card takes 10 ms a row and 1 ms a row each way, 20 ms to start and 100 ms to
// transfer an expert of 1000 bytes, of which it holds ten.
func card() *profiles.Profile {
	n := func(v float64) profiles.Number { return profiles.Number{Value: v, Source: "made up"} }
	return &profiles.Profile{
		Name: "card", Time: profiles.Printed, Alpha: n(10e-3), Beta: n(1e-3), ExpertBytes: n(1000), MemoryBytes: n(10_000), Bandwidth: n(10_000), ColdStart: n(20e-3),
	}
}

func quickCard() *profiles.Profile {
	quick := card()
	quick.MemoryBytes.Value = 1e6
	quick.Alpha.Value, quick.Beta.Value, quick.Bandwidth.Value, quick.ColdStart.Value = 1e-6, 1e-7, 1e8, 1e-5
	return quick
}

func tiny(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// faulty calls begin before each load.
type faulty struct {
	device.Loader[*forward.Expert]
	begin func(context.Context, forward.ExpertID) error
}

func (f faulty) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	if err := f.begin(ctx, id); err != nil {
		return nil, err
	}
	return f.Loader.Load(ctx, id)
}

func (f faulty) LoadInPieces(ctx context.Context, id forward.ExpertID, p device.Pieces) (*forward.Expert, error) {
	if err := f.begin(ctx, id); err != nil {
		return nil, err
	}
	if in, ok := f.Loader.(device.Piecewise[*forward.Expert]); ok {
		return in.LoadInPieces(ctx, id, p)
	}
	return f.Loader.Load(ctx, id)
}

// The suite is for real time, so its device is quick.
func TestConforms(t *testing.T) {
	m, p, quick := tiny(t), pool.New(2), quickCard()
	defer p.Close()
	devicetest.Conform(t, func(_ testing.TB, s device.Settings) (device.Device, *devicetest.Faults) {
		f := &devicetest.Faults{}
		l := newLoader(quick, NewMachine(quick), device.PackedOn(m, p, within(quick, s)), newWaiter())
		return newOn(m, p, l, faulty{l, f.Begin}, s), f
	})
}

// timed is a device in a bubble: its clock stands still while anything computes.
type timed struct {
	*Device
	t     *testing.T
	began time.Time
}

func newTimed(t *testing.T, cpu device.Loader[*forward.Expert], s device.Settings) *timed {
	return newTimedOn(t, card(), cpu, s)
}

func newTimedOn(t *testing.T, p *profiles.Profile, cpu device.Loader[*forward.Expert], s device.Settings) *timed {
	return newTimedIn(t, NewMachine(p), p, cpu, s)
}

func newTimedIn(t *testing.T, in *Machine, p *profiles.Profile, cpu device.Loader[*forward.Expert], s device.Settings) *timed {
	m := tiny(t)
	if cpu == nil {
		cpu = device.Packed(m)
	}
	l := newLoader(p, in, cpu, timers{})
	d := newOn(m, pool.New(1), l, l, s)
	t.Cleanup(d.Close)
	return &timed{d, t, time.Now()}
}

// wantTime wants the bubble's clock to show so much since its device was made.
func (d *timed) wantTime(ms int) {
	d.t.Helper()
	if got := time.Since(d.began); got != time.Duration(ms)*time.Millisecond {
		d.t.Errorf("it is %v, want %d ms", got, ms)
	}
}

func (d *timed) warm(experts ...int) (tickets []*device.Ticket) {
	d.t.Helper()
	for _, e := range experts {
		ticket := d.Load(d.t.Context(), forward.ExpertID{Expert: e}, 0)
		if err := ticket.Wait(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	d.began = time.Now()
	return tickets
}

// run computes one row for each of some experts.
func (d *timed) run(experts ...uint32) error {
	in := forward.Routed{X: make([]float32, devicetest.Hidden), Expert: experts}
	in.Source, in.Weight = make([]uint32, len(experts)), make([]float32, len(experts))
	return d.Compute(in, make([]float32, len(experts)*devicetest.Hidden), &forward.ExpertScratch{})
}

// later runs f after a while, and says when all that it does is done.
func later(ms int, f func()) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		time.Sleep(time.Duration(ms) * time.Millisecond)
		f()
		close(done)
	}()
	return done
}

// A call takes its rows' time and their way; calls follow each other, and ways
// overlap.
func TestCompute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTimed(t, nil, device.Settings{})
		d.warm(0, 1)
		if err := d.run(0, 1, 0); err != nil {
			t.Fatal(err)
		}
		d.wantTime(30 + 2*3)
		d.began = time.Now()
		first := later(0, func() { _ = d.run(0, 0); d.wantTime(20 + 2*2) })
		second := later(5, func() { _ = d.run(1); d.wantTime(20 + 10 + 2) })
		<-first
		<-second
		if err := d.run(); err != nil {
			t.Error(err)
		}
		d.wantTime(32)
	})
}

// A call that fails takes no time.
func TestComputeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTimed(t, nil, device.Settings{})
		d.warm(0)
		if err := d.run(0, 1, 0, 0); !errors.Is(err, forward.ErrNotWarm) {
			t.Error(err)
		}
		d.wantTime(0)
		if err := d.run(0); err != nil {
			t.Error(err)
		}
		d.wantTime(10 + 2)
	})
}

// An expert stays for as long as the profile's device computes with it.
func TestKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTimed(t, nil, device.Settings{})
		d.warm(0)[0].Release()
		computing := later(0, func() { _ = d.run(0, 0) })
		time.Sleep(23 * time.Millisecond)
		var held *device.HeldError
		if err := d.Evict(forward.ExpertID{}); !errors.As(err, &held) {
			t.Errorf("evicting while computing: %v", err)
		}
		<-computing
		if err := d.Evict(forward.ExpertID{}); err != nil {
			t.Error(err)
		}
	})
}

// Transfers follow each other; start-ups overlap where several loads run.
func TestLoads(t *testing.T) {
	for _, tc := range []struct {
		loads int
		want  []int // ms
	}{
		{0, []int{120, 240, 360}},
		{3, []int{120, 220, 320}},
	} {
		t.Run(fmt.Sprintf("loads=%d", tc.loads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newTimed(t, nil, device.Settings{Loads: tc.loads})
				var got []int
				var tickets []*device.Ticket
				for e := range 3 {
					tickets = append(tickets, d.Load(t.Context(), forward.ExpertID{Expert: e}, 0))
				}
				for len(tickets) > 0 {
					time.Sleep(time.Millisecond)
					tickets = slices.DeleteFunc(tickets, func(one *device.Ticket) bool {
						select {
						case <-one.Done():
							got = append(got, int(time.Since(d.began).Milliseconds()))
							return true
						default:
							return false
						}
					})
				}
				for i := range tc.want {
					if got[i]-tc.want[i] > 1 || got[i] < tc.want[i] {
						t.Errorf("loaded after %d ms, want %d", got, tc.want)
					}
				}
			})
		})
	}
}

// A load ends at once when nobody wants it any more, wherever it is, and the
// next one begins then.
func TestCancel(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after int // ms
	}{
		{"start-up", 7}, {"transfer", 77},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newTimed(t, nil, device.Settings{})
				unwanted, next := d.Load(t.Context(), forward.ExpertID{}, 1), d.Load(t.Context(), forward.ExpertID{Expert: 1}, 0)
				time.Sleep(time.Duration(tc.after) * time.Millisecond)
				unwanted.Release()
				if err := next.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				d.wantTime(tc.after + 120)
				if used := d.Memory().Used; used != 1000 || !errors.Is(unwanted.Err(), device.ErrCancelled) {
					t.Errorf("%d bytes are used, %v", used, unwanted.Err())
				}
			})
		})
	}
}

// The link's next user may give up before it is free.
func TestCancelAtTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTimed(t, nil, device.Settings{Loads: 2})
		first := d.Load(t.Context(), forward.ExpertID{}, 0)
		time.Sleep(time.Millisecond)
		second := d.Load(t.Context(), forward.ExpertID{Expert: 1}, 0)
		time.Sleep(50 * time.Millisecond)
		second.Release()
		synctest.Wait()
		if used := d.Memory().Used; used != 1000 {
			t.Errorf("%d bytes are used", used)
		}
		if err := first.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		d.wantTime(120)
	})
}

// Experts are packed into what others have left, with the profile's memory as with a budget.
func TestMemoryAgain(t *testing.T) {
	m, p, quick := tiny(t), pool.New(2), quickCard()
	defer p.Close()
	for _, budget := range []int64{0, quick.Expert()} {
		d := New(m, p, quick, NewMachine(quick), device.Settings{Budget: budget})
		defer d.Close()
		var last *cpu.Space
		for e := range 3 {
			id := forward.ExpertID{Expert: e}
			ticket := d.Load(t.Context(), id, 0)
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			space := d.Borrow(id).Space()
			d.GiveBack(id)
			ticket.Release()
			if err := d.Evict(id); err != nil {
				t.Fatal(err)
			}
			if space == nil || last != nil && space != last {
				t.Errorf("budget %d: %v takes other memory than the one before", budget, id)
			}
			last = space
		}
	}
}

// Memory is the profile's, or a smaller budget.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTimed(t, nil, device.Settings{})
		small := newTimed(t, nil, device.Settings{Budget: 1999})
		if got := d.Memory().Budget; got != 10_000 {
			t.Errorf("the budget is %d", got)
		}
		if n, err := small.Size(forward.ExpertID{}); n != 1000 || err != nil {
			t.Errorf("an expert has %d bytes, %v", n, err)
		}
		small.warm(0)
		var refused *device.RefusedError
		if err := small.Load(t.Context(), forward.ExpertID{Expert: 1}, 0).Err(); !errors.As(err, &refused) || refused.Room != 999 {
			t.Error(err)
		}
	})
}

// Weights are read once an access: a second row of an expert takes no longer, one of
// another expert does, and so does a second call.
func TestAccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := func(v float64) profiles.Number { return profiles.Number{Value: v, Source: "made up"} }
		p := card()
		p.Time, p.Beta = profiles.Roofline, n(0)
		// 10 ms to read 1,000 bytes, 2 ms a row, 1 ms an access, 3 ms a call.
		p.Read, p.Rate, p.Element, p.Access, p.Call = n(100e3), n(500e3), n(2), n(1e-3), n(3e-3)
		d := newTimedOn(t, p, nil, device.Settings{})
		d.warm(0, 1)
		for _, tc := range []struct {
			experts []uint32
			ms      int
		}{
			{[]uint32{0}, 14},
			{[]uint32{0, 0}, 14},
			{[]uint32{0, 1, 0}, 25},
			{[]uint32{1, 1, 1, 1, 1, 1, 1, 1, 1}, 22},
		} {
			d.began = time.Now()
			if err := d.run(tc.experts...); err != nil {
				t.Fatal(err)
			}
			d.wantTime(tc.ms)
		}
	})
}

// What the CPU does too slowly is released when it is there, and counted.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := faulty{device.Packed(tiny(t)), func(_ context.Context, id forward.ExpertID) error {
			time.Sleep(time.Duration(id.Expert) * 150 * time.Millisecond)
			return nil
		}}
		d := newTimed(t, slow, device.Settings{})
		d.warm(0, 1) // in 120 ms and in 170
		compute := d.compute
		d.compute = func(from forward.Lender, in forward.Routed, out []float32, s *forward.ExpertScratch) error {
			time.Sleep(20 * time.Millisecond)
			return compute(from, in, out, s)
		}
		for _, experts := range [][]uint32{{0, 0}, {1}} { // in 24 ms and in 20 instead of 12
			if err := d.run(experts...); err != nil {
				t.Fatal(err)
			}
		}
		d.wantTime(24 + 20)
		stats := map[string]float64{}
		d.Report(stats)
		want := map[string]float64{
			"paced_computes_total": 2, "paced_computes_late_total": 1, "paced_loads_total": 2, "paced_loads_late_total": 1,
			"paced_late_seconds_total": 0.058, "paced_busy_seconds_total": 0.03,
			"paced_release_late_seconds_total": 0.008,
		}
		for name, n := range want {
			if stats[name] != n {
				t.Errorf("%s is %v, want %v", name, stats[name], n)
			}
		}
	})
}

// The bits are the CPU's.
func TestBits(t *testing.T) {
	m, p := tiny(t), pool.New(2)
	defer p.Close()
	cpu, quick := device.NewCPU(m, p, device.Settings{}), card()
	defer cpu.Close()
	quick.Alpha.Value, quick.Beta.Value, quick.Bandwidth.Value, quick.ColdStart.Value = 1e-5, 1e-6, 1e7, 0
	quick.MemoryBytes.Value = 1e6
	d := New(m, p, quick, NewMachine(quick), device.Settings{})
	defer d.Close()
	for _, one := range []device.Device{cpu, d} {
		if err := device.LoadAll(t.Context(), one, m.Spec); err != nil {
			t.Fatal(err)
		}
	}
	in := forward.Routed{X: make([]float32, 3*m.Spec.Hidden)}
	for i := range in.X {
		in.X[i] = float32(i%13) - 6
	}
	for i := range 9 {
		in.Source, in.Expert, in.Weight = append(in.Source, uint32(i%3)), append(in.Expert, uint32(i*7%4)), append(in.Weight, 0.3+float32(i))
	}
	want, got := make([]float32, 9*m.Spec.Hidden), make([]float32, 9*m.Spec.Hidden)
	for _, one := range []struct {
		d   device.Device
		out []float32
	}{{cpu, want}, {d, got}} {
		if err := one.d.Compute(in, one.out, &forward.ExpertScratch{}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Error("a paced device has other bits than the CPU")
	}
}
