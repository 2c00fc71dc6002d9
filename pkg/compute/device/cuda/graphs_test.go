package cuda

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// decoding is sequences that get tokens.
type decoding struct {
	*spine
	tables []*kvcache.Table
	at     []int
	pages  map[cuda.Ptr]bool // that steps have had, if somebody wants to know
}

// decodingOn is so many sequences, on a GPU with graphs or without.
func decodingOn(t testing.TB, m *model.Model, driver cuda.Driver, s BackboneSettings, n int) *decoding {
	t.Helper()
	d := &decoding{spine: spineOn(t, m, driver, s), at: make([]int, n)}
	for range n {
		table, err := d.kv.Reserve(64)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(table.Release)
		d.tables = append(d.tables, table)
	}
	return d
}

// rows are so many of each sequence, beginning with the first.
func (d *decoding) rows(counts ...int) (rows []forward.Row) {
	for i, n := range counts {
		for p := d.at[i]; p < d.at[i]+n; p++ {
			id := uint32((17*p*p + 5*p + 31*i + 3) % d.m.Spec.Vocab)
			rows = append(rows, forward.Row{Table: d.tables[i], ID: id, Position: p, Logits: true})
		}
	}
	return rows
}

// take is the logits of so many rows of each sequence, which are in the cache then.
func (d *decoding) take(t testing.TB, counts ...int) []float32 {
	t.Helper()
	out, err := logits(t.Context(), d.step, d.rows(counts...))
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range counts {
		d.at[i] += n
	}
	return out
}

func (y *spine) local() *forward.Local {
	return y.step.MoE.(*forward.Local) //nolint:errcheck // spineOn has made it
}

// each is a token of each of n sequences.
func each(n int) []int { return slices.Repeat([]int{1}, n) }

// script is steps: prompts, and tokens of one to nine sequences, each more than once, alone, and beside
// prompts short and long.
var script = [][]int{
	{5, 1, 33, 20, 2, 1, 1, 4, 7}, each(1), each(1), each(2), each(2), each(3), each(3), each(4), {1, 3}, {1, 3}, {1, 17}, each(4),
	each(5), each(8), each(8), each(9), each(9), each(7), {1, 1, 1, 1, 0, 1, 1, 1}, each(1), each(9),
}

// from lets the last sequence go on from a position, behind what nobody has written.
func (d *decoding) from(t testing.TB, position int) {
	t.Helper()
	table, err := d.kv.Reserve(position + 128)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Release)
	last := len(d.tables) - 1
	d.tables[last], d.at[last] = table, position
}

// graphsAgree wants the bits of launches one by one from graphs, which touch nothing but their lane's
// buffers, the pages of their sequences, and the scratch page.
func graphsAgree(t *testing.T, m *model.Model, open func() cuda.Driver, parts, from int) {
	t.Helper()
	s := backboneSettings(parts)
	got := decodingOn(t, m, open(), s, 9)
	s.NoGraphs = true
	want := decodingOn(t, m, open(), s, 9)
	for _, d := range []*decoding{got, want} {
		d.from(t, from)
		d.on.sizes.partFloats = 3 * d.on.sizes.perSplit // little room, so that rows are in several stretches
	}
	got.poison(t)
	got.notePages()
	before := got.arena(t)
	for i, counts := range script {
		if got, want := got.take(t, counts...), want.take(t, counts...); !slices.Equal(got, want) {
			t.Fatalf("step %d, %v: other bits", i, counts)
		}
	}
	if len(got.on.lanes[0].shapes) < 4 {
		t.Errorf("there are graphs of %d shapes", len(got.on.lanes[0].shapes))
	}
	got.untouched(t, before, got.arena(t))
}

// lane is where the first lane's buffers are.
func (d *decoding) lane() (from, to cuda.Ptr) {
	return d.on.lanes[0].at.upload, d.on.lanes[1].at.upload
}

// poison fills the first lane's buffers with NaN and with addresses of nothing.
func (d *decoding) poison(t testing.TB) {
	t.Helper()
	l := d.on.lanes[0]
	from, to := d.lane()
	none, err := d.on.driver.Pin(int64(to - from))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{none, l.in, l.block, l.head} {
		for i := range b {
			b[i] = 0xff
		}
	}
	err = errors.Join(l.stream.CopyIn(from, none), l.done.record(l.stream), l.done.wait(), d.on.driver.Unpin(none))
	if err != nil {
		t.Fatal(err)
	}
}

// base is where the arena begins: with the weights of the first layer.
func (d *decoding) base() cuda.Ptr { return d.on.layers[0].norm.weight }

// arena is all of the GPU's memory.
func (d *decoding) arena(t testing.TB) []byte {
	t.Helper()
	l := d.on.lanes[0]
	all, err := d.on.driver.Pin(d.on.arena.Size())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(l.stream.CopyOut(all, d.base()), l.done.record(l.stream), l.done.wait())
	out := bytes.Clone(all)
	if err = errors.Join(err, d.on.driver.Unpin(all)); err != nil {
		t.Fatal(err)
	}
	return out
}

// notePages looks, within each step, which pages sequences have: some are given back behind it.
func (d *decoding) notePages() {
	d.pages = map[cuda.Ptr]bool{}
	d.local().Routed = func(int, []float32, *forward.Routes) error {
		for i, table := range d.tables {
			for g := range d.on.sizes.sights {
				for _, at := range table.Addresses(nil, g, (d.at[i]/64+1)*64) {
					if at != 0 {
						d.pages[cuda.Ptr(at)] = true
					}
				}
			}
		}
		return nil
	}
}

// untouched wants nothing to have changed but what steps may write.
func (d *decoding) untouched(t testing.TB, before, after []byte) {
	t.Helper()
	shape := kvcache.ShapeOf(&d.m.Spec)
	d.on.blocks(shape)
	page, base := cuda.Ptr(shape.DevicePage()), d.base()
	may := func(from, to cuda.Ptr) { copy(after[from-base:to-base], before[from-base:]) }
	may(d.lane())
	may(d.on.scratch, d.on.scratch+page)
	for at := range d.pages {
		may(at, at+page)
	}
	if !bytes.Equal(after, before) {
		t.Error("a step has written outside of its lane's buffers and its sequences' pages")
	}
}

// With graphs steps have the bits that they have without, whatever the model, the rows, and how much
// they see.
func TestGraphsAgree(t *testing.T) {
	open := func() cuda.Driver { return newAttentionGPU(t) }
	const twoSplits = splitPositions - 6
	t.Run("wide heads", func(t *testing.T) { graphsAgree(t, wideHeads(t), open, 2, twoSplits) })
	for _, name := range testkit.Some(decoders) {
		t.Run(name, func(t *testing.T) {
			from := 0
			if slices.Contains([]string{"mixtral-window", "llama4", "deepseek_v3"}, name) {
				from = twoSplits
			}
			graphsAgree(t, modeltest.Golden(t, name), open, 1, from)
		})
	}
}

// Lanes step at the same time, each with graphs of its own.
func TestGraphsOfLanes(t *testing.T) {
	s := backboneSettings(2)
	d := decodingOn(t, modeltest.Golden(t, "qwen2_moe"), newAttentionGPU(t), s, 2)
	one, other := *d, *d
	one.at = []int{0}
	other.at, other.tables = []int{0}, d.tables[1:]
	local := *d.local()
	spine := *d.spine
	spine.step = &forward.Step{Backbone: d.backbone, MoE: &local}
	other.spine = &spine
	var want [12][]float32
	for i := range want {
		want[i] = one.take(t, 1)
	}
	one.at[0] = 0
	var lanes sync.WaitGroup
	for _, on := range []*decoding{&one, &other} {
		lanes.Go(func() {
			for i := range want {
				got, err := logits(t.Context(), on.step, on.rows(1))
				if err != nil || !slices.Equal(got, want[i]) {
					t.Errorf("token %d: other bits, or %v", i, err)
				}
				on.at[0]++
			}
		})
	}
	lanes.Wait()
	for i, l := range d.on.lanes {
		if len(l.shapes) != 1 || len(l.shapes[0].of) == 0 {
			t.Errorf("lane %d has no graphs", i)
		}
	}
}

// A lane has graphs of the shapes that its last steps had, from the second step on that has them;
// the others' are given back, and so are all in the end.
func TestGraphsOfShapes(t *testing.T) {
	gpu, s := newAttentionGPU(t), backboneSettings(1)
	s.Rows = 129
	d := decodingOn(t, modeltest.Golden(t, "mixtral"), gpu, s, 129)
	graphs := d.m.Spec.Layers + 1 // of a shape
	for _, tt := range []struct{ rows, captured, open int }{
		{1, 0, 0}, {1, 1, 1}, {1, 1, 1}, {2, 1, 1}, {2, 2, 2}, {3, 2, 2}, {4, 3, 3}, {3, 3, 3}, {5, 3, 3}, {8, 4, 4},
		{9, 4, 4}, {9, 5, 5}, {17, 5, 5}, {17, 6, 6}, {33, 6, 6}, {33, 7, 7}, {65, 7, 7}, {66, 8, 8},
		{129, 8, 7}, {129, 9, 8}, {1, 9, 7}, {1, 10, 8}, {4, 10, 8}, {2, 10, 7},
	} {
		d.take(t, each(tt.rows)...)
		open, captured, _ := gpu.Graphs()
		if open != tt.open*graphs || captured != tt.captured*graphs {
			t.Fatalf("%d rows: %d graphs were captured and %d are open, want %d and %d", tt.rows, captured, open, tt.captured*graphs, tt.open*graphs)
		}
	}
	d.on.Close()
	if open, _, _ := gpu.Graphs(); open != 0 {
		t.Errorf("%d graphs are left", open)
	}
}

// What graphs add to what can go wrong: a step does without, or fails as one whose launch is
// refused, and no step after it has other bits. Why there are none any more is told once.
func TestGraphFaults(t *testing.T) {
	const kernel = "kv_store_p2"
	always := 1 << 20
	for _, tt := range []struct {
		name  string
		steps int // before the fault: the second one captures
		fault func(*fake.Faults) (end func())
		want  outcome
		told  error
	}{
		{"no graphs in the driver", 1, now(func(f *fake.Faults) { f.Refuse("cuStreamBeginCapture", cuda.CodeNotFound, 1) }), outcome{next: true}, cuda.ErrImage},
		{"capture spoilt", 1, now(func(f *fake.Faults) { f.Refuse("cuStreamEndCapture", cuda.CodeCaptureInvalidated, 1) }), outcome{next: true}, cuda.ErrGraph},
		{"no memory for a graph", 1, now(func(f *fake.Faults) { f.Refuse("cuGraphInstantiate", cuda.CodeOutOfMemory, 1) }), outcome{next: true}, cuda.ErrMemory},
		{"launch refused in a capture", 1, now(func(f *fake.Faults) { f.Refuse(kernel, cuda.CodeLaunchOutOfMemory, 1) }), outcome{next: true}, cuda.ErrLaunch},
		{"and behind it", 1, now(func(f *fake.Faults) { f.Refuse(kernel, cuda.CodeLaunchOutOfMemory, 2) }), outcome{call: cuda.ErrLaunch, next: true}, cuda.ErrLaunch},
		{"lost in a capture", 1, now(func(f *fake.Faults) { f.Refuse(kernel, cuda.CodeECC, always) }), outcome{call: cuda.ErrLost}, nil},
		{"run refused", 3, now(func(f *fake.Faults) { f.Refuse("cuGraphLaunch", cuda.CodeInvalidValue, always) }), outcome{call: cuda.ErrLaunch, next: true}, cuda.ErrLaunch},
		{"lost in a run", 3, now(func(f *fake.Faults) { f.Refuse("cuGraphLaunch", cuda.CodeECC, always) }), outcome{call: cuda.ErrLost}, nil},
		{"kernel fails", 3, now(func(f *fake.Faults) { f.Break(kernel, cuda.CodeIllegalAddress) }), outcome{call: cuda.ErrLost}, nil},
		{"lost", 3, now(func(f *fake.Faults) { f.Lose(cuda.CodeDeviceUnavailable) }), outcome{call: cuda.ErrLost}, nil},
		{"kernel hangs", 3, func(f *fake.Faults) func() { return f.HoldKernel(kernel) }, outcome{call: cuda.ErrLost}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gpu, s := newAttentionGPU(t), backboneSettings(2)
			var told []error
			s.Ungraphed = func(why error) { told = append(told, why) }
			d := decodingOn(t, modeltest.Golden(t, "mixtral"), gpu, s, 3)
			want := d.take(t, 1, 1, 1)
			again := func() ([]float32, error) {
				d.at = []int{0, 0, 0}
				return logits(t.Context(), d.step, d.rows(1, 1, 1))
			}
			for range tt.steps - 1 {
				if got, err := again(); err != nil || !slices.Equal(got, want) {
					t.Fatalf("other bits, or %v", err)
				}
			}
			if errors.Is(tt.want.call, cuda.ErrLost) {
				d.on.health.patience = 20 * time.Millisecond
			}
			if end := tt.fault(gpu.Faults); end != nil {
				defer end()
			}
			got, err := again()
			var device *forward.DeviceError
			switch {
			case !errors.Is(err, tt.want.call) || err != nil && (!errors.As(err, &device) || device.Lost == tt.want.next):
				t.Fatalf("the step: %v, want %v", err, tt.want.call)
			case err == nil && !slices.Equal(got, want):
				t.Error("the step gives other logits")
			}
			for range 3 {
				if got, err := again(); (err == nil) != tt.want.next || err == nil && !slices.Equal(got, want) {
					t.Errorf("the next step: other logits, or %v", err)
				}
			}
			if (tt.told == nil) != (len(told) == 0) || tt.told != nil && (len(told) != 1 || !errors.Is(told[0], tt.told)) {
				t.Errorf("told %v, want %v", told, tt.told)
			}
			if open, _, _ := gpu.Graphs(); tt.want.next && open != 0 {
				t.Errorf("%d graphs are open", open)
			}
		})
	}
}

// quiet is a driver that computes nothing, and takes no memory for that.
type quiet struct{ *fake.Device }

type quietStream struct{ cuda.Stream }

func (quiet) NewEvent() (cuda.Event, error) { return quietEvent{}, nil }
func (d quiet) NewStream() (cuda.Stream, error) {
	s, err := d.Device.NewStream()
	return quietStream{s}, err
}
func (quietStream) CopyIn(cuda.Ptr, []byte) error              { return nil }
func (quietStream) CopyOut([]byte, cuda.Ptr) error             { return nil }
func (quietStream) Launch(*cuda.Launch) error                  { return nil }
func (quietStream) Record(cuda.Event) error                    { return nil }
func (quietStream) Run(cuda.Graph) error                       { return nil }
func (quietStream) Capture(f func() error) (cuda.Graph, error) { return quietEvent{}, f() }

type quietEvent struct{}

func (quietEvent) Wait() error                      { return nil }
func (quietEvent) Poll(time.Duration) (bool, error) { return true, nil }
func (quietEvent) Close() error                     { return nil }

// through takes rows through a lane; experts give what they gave before.
func through(lane forward.Lane, m *model.Model, rows []forward.Row) error {
	err := lane.Begin(rows)
	for i := range m.Spec.Layer {
		_, attended := lane.Attend(i)
		if err = cmp.Or(err, attended); !m.Spec.Layer[i].MoE {
			err = cmp.Or(err, lane.Dense(i))
			continue
		}
		if m.Spec.Layer[i].Shared.Width > 0 {
			err = cmp.Or(err, lane.Shared(i))
		}
		err = cmp.Or(err, lane.Combine(i))
	}
	_, ended := lane.End()
	return cmp.Or(err, ended)
}

// Once a shape has graphs a step takes no memory, of this process or of the GPU; nor does one
// without them.
func TestGraphsAllocateNothing(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := backboneSettings(2)
		s.NoGraphs = plain
		d := decodingOn(t, modeltest.Golden(t, "deepseek_v3"), quiet{newAttentionGPU(t)}, s, 5)
		rows := d.rows(each(5)...)
		lane, err := d.on.Lane(nil)
		if err != nil {
			t.Fatal(err)
		}
		step := func() {
			if err := through(lane, d.m, rows); err != nil {
				t.Error(err)
			}
		}
		step()
		step()
		if n := testing.AllocsPerRun(20, step); n != 0 {
			t.Errorf("without graphs %v: a step allocates %v times", plain, n)
		}
	}
}
