package aggregator

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const width = 3

var (
	now = time.Unix(1000, 0)
)

// shape is of a model with this top-k.
func shape(topK int) *wire.Shape {
	return &wire.Shape{
		Identity: wire.Identity{Model: 7}, Hidden: width, Experts: 8, TopK: topK, MoE: []bool{false, false, true, true},
		MaxRows: func() int { return 1000 },
	}
}

const room = 1 << 20

func key(rows int) *pb.Key {
	return &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Epoch: 1, Step: 5, Layer: 2, Rows: uint32(rows), Aggregator: "a"}
}

// partial is the outputs at these places of a group (rows, k), out of x (rows, k, width).
func partial(k *pb.Key, x []float32, places []int) *pb.Partial {
	p := &pb.Partial{Key: k}
	var data []float32
	for _, at := range places {
		p.Place = append(p.Place, uint32(at))
		data = append(data, x[at*width:(at+1)*width]...)
	}
	p.Tensor = tensor.Encode(tensor.F32, data, width, nil)
	return p
}

func noise(seed uint64, n int) []float32 {
	g, x := rand.New(rand.NewPCG(seed, 1)), make([]float32, n)
	for i := range x {
		x[i] = float32(g.NormFloat64())
	}
	return x
}

// drawAwaits draws the places that a group awaits, and how its messages say so.
func drawAwaits(t *rapid.T, n int) (places []int, awaits wire.Awaits) {
	places = rapid.Permutation(slices.Collect(seq(n))).Draw(t, "places")
	if rapid.Bool().Draw(t, "all") {
		return places, nil
	}
	places = places[:rapid.IntRange(1, n).Draw(t, "awaited")]
	if len(places) == n {
		return places, nil
	}
	awaits = wire.NewAwaits(n)
	for _, at := range places {
		awaits.Add(at)
	}
	return places, awaits
}

// drawPartials cuts a group's places into messages, some of them sent twice. Some rows come as sums.
func drawPartials(t *rapid.T, k *pb.Key, topK int, x []float32, places []int, awaits wire.Awaits) (out []*pb.Partial) {
	x, places = drawSums(t, int(k.Rows), topK, x, places)
	for len(places) > 0 {
		n := rapid.IntRange(1, len(places)).Draw(t, "n")
		p := partial(k, x, places[:n])
		p.Awaits = awaits
		out, places = append(out, p), places[n:]
		if rapid.Bool().Draw(t, "again") {
			out = append(out, p)
		}
	}
	return out
}

// drawSums replaces places of some rows by that of their sum, and puts the sums behind x. Some
// of the places stay beside the sum.
func drawSums(t *rapid.T, rows, topK int, x []float32, places []int) (all []float32, left []int) {
	all = append(slices.Clone(x), directSum(x, rows, topK, places)...)
	summed := rapid.SliceOfN(rapid.Bool(), rows, rows).Draw(t, "summed")
	for _, at := range places {
		row := at / topK
		if !summed[row] || rapid.IntRange(0, 3).Draw(t, "beside") == 0 {
			left = append(left, at)
		}
		if sum := rows*topK + row; summed[row] && !slices.Contains(left, sum) {
			left = append(left, sum)
		}
	}
	return all, left
}

// directSum adds up the awaited slots of each row, in their order.
func directSum(x []float32, rows, topK int, places []int) []float32 {
	out := make([]float32, rows*width)
	for r := range rows {
		begun := false
		for at := r * topK; at < (r+1)*topK; at++ {
			if !slices.Contains(places, at) {
				continue
			}
			for i := range width {
				if v := x[at*width+i]; begun {
					out[r*width+i] += v
				} else {
					out[r*width+i] = v
				}
			}
			begun = true
		}
	}
	return out
}

func seq(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// Any split, order and repetition of partials, whatever is awaited and however
// many attempts are under way at once, give one block an attempt, with the bits
// of the direct sum over the awaited slots.
func TestOneBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topK := rapid.IntRange(1, 4).Draw(t, "k")
		gs := newGroups(shape(topK), room)
		for round := range 3 { // groups reuse each other's memory
			rows := rapid.IntRange(1, 5).Draw(t, "rows")
			x := noise(rapid.Uint64().Draw(t, "seed"), rows*topK*width)
			var partials []*pb.Partial
			want := map[uint32][]float32{}
			for attempt := range uint32(rapid.IntRange(1, 3).Draw(t, "attempts")) {
				k := key(rows)
				k.Step, k.Attempt = uint64(round), attempt
				places, awaits := drawAwaits(t, rows*topK)
				partials = append(partials, drawPartials(t, k, topK, x, places, awaits)...)
				want[attempt] = directSum(x, rows, topK, places)
			}
			checkBlocks(t, gs, rapid.Permutation(partials).Draw(t, "order"), want)
		}
	})
}

// checkBlocks wants partials to give each attempt's block once.
func checkBlocks(t *rapid.T, gs *groups, partials []*pb.Partial, want map[uint32][]float32) {
	blocks := map[uint32]int{}
	for _, p := range partials {
		g, what, err := gs.add(p, now)
		if err != nil {
			t.Fatal(err)
		}
		if (g != nil) != (what == whole) {
			t.Fatalf("group %v with outcome %d", g, what)
		}
		if g == nil {
			continue
		}
		blocks[p.Key.Attempt]++
		if len(g.place) > g.wanted {
			t.Fatalf("%d rows are kept for %d slots", len(g.place), g.wanted)
		}
		if got := gs.sum(g, nil); !slices.EqualFunc(got, want[p.Key.Attempt], sameBits) {
			t.Fatalf("%v, want %v", got, want[p.Key.Attempt])
		}
		gs.release(g)
	}
	for attempt := range want {
		if blocks[attempt] != 1 {
			t.Fatalf("%d blocks of attempt %d", blocks[attempt], attempt)
		}
	}
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// Parts, layers and attempts are collected apart.
func TestGroupsApart(t *testing.T) {
	x := noise(1, 2*width)
	for name, change := range map[string]func(*pb.Key){
		"owner": func(k *pb.Key) { k.Owner = "b" }, "epoch": func(k *pb.Key) { k.Epoch++ },
		"step": func(k *pb.Key) { k.Step++ }, "microbatch": func(k *pb.Key) { k.Microbatch++ }, "layer": func(k *pb.Key) { k.Layer++ },
		"part": func(k *pb.Key) { k.Part++ }, "attempt": func(k *pb.Key) { k.Attempt++ },
	} {
		gs, other := newGroups(shape(2), room), key(1)
		change(other)
		for _, p := range []*pb.Partial{partial(key(1), x, []int{0}), partial(other, x, []int{1})} {
			if _, what, err := gs.add(p, now); what != waiting || err != nil {
				t.Errorf("%s: outcome %d, %v", name, what, err)
			}
		}
		if len(gs.open) != 2 {
			t.Errorf("%s: %d groups", name, len(gs.open))
		}
	}
}

func TestRepeats(t *testing.T) {
	gs, x := newGroups(shape(2), room), noise(1, 2*width)
	steps := []struct {
		places []int
		want   outcome
	}{{[]int{0}, waiting}, {[]int{0}, repeated}, {[]int{0, 1}, whole}, {[]int{1}, repeated}, {[]int{0, 1}, repeated}}
	for i, s := range steps {
		if _, what, err := gs.add(partial(key(1), x, s.places), now); what != s.want || err != nil {
			t.Errorf("step %d: outcome %d, %v; want %d", i, what, err, s.want)
		}
	}
	if len(gs.open) != 0 {
		t.Errorf("a repeat opened %d groups", len(gs.open))
	}
}

// A row's sum completes what came of the row in part, and stands for it; slots add nothing to
// a sum. Of two rows with two slots each, 4 and 5 are the sums.
func TestSumsOverlap(t *testing.T) {
	gs, x := newGroups(shape(2), room), noise(1, 6*width)
	var g *group
	for i, s := range []struct {
		places []int
		want   outcome
	}{
		{[]int{0}, waiting}, {[]int{5}, waiting}, {[]int{2, 3}, repeated}, {[]int{5}, repeated}, {[]int{4, 1}, whole}, {[]int{4}, repeated},
	} {
		one, what, err := gs.add(partial(key(2), x, s.places), now)
		if what != s.want || err != nil {
			t.Errorf("step %d: outcome %d, %v; want %d", i, what, err, s.want)
		}
		if one != nil {
			g = one
		}
	}
	if got := gs.sum(g, nil); !slices.EqualFunc(got, x[4*width:], sameBits) {
		t.Errorf("%v, want the sums %v", got, x[4*width:])
	}
}

func TestExpire(t *testing.T) {
	gs, x := newGroups(shape(2), room), noise(1, 2*width)
	add := func(step uint64, places []int, at time.Time) {
		k := key(1)
		k.Step = step
		if _, _, err := gs.add(partial(k, x, places), at); err != nil {
			t.Fatal(err)
		}
	}
	add(1, []int{0}, now)
	add(2, []int{0, 1}, now)
	add(3, []int{0}, now.Add(time.Minute))
	add(4, []int{0, 1}, now.Add(time.Minute))
	if n := gs.expire(now.Add(time.Minute), 20*time.Second); n != 1 {
		t.Errorf("%d incomplete groups expired, want 1", n)
	}
	if len(gs.open) != 1 || len(gs.done.of) != 1 {
		t.Errorf("%d open and %d done groups are left, want 1 and 1", len(gs.open), len(gs.done.of))
	}
}

func TestMalformed(t *testing.T) {
	x := noise(1, 4*width)
	for name, change := range map[string]func(*pb.Partial){
		"no tensor":     func(p *pb.Partial) { p.Tensor = nil },
		"fewer places":  func(p *pb.Partial) { p.Place = p.Place[:1] },
		"more places":   func(p *pb.Partial) { p.Place = append(p.Place, 3) },
		"place outside": func(p *pb.Partial) { p.Place[1] = 6 },
		"huge place":    func(p *pb.Partial) { p.Place[1] = 1 << 31 },
		"huge group":    func(p *pb.Partial) { p.Key.Rows = tensor.MaxRows },
		"another group": func(p *pb.Partial) { p.Key.Rows = 3 },
		"no experts":    func(p *pb.Partial) { p.Key.Layer = 1 },
		"no such layer": func(p *pb.Partial) { p.Key.Layer = 1 << 31 },
		"no key":        func(p *pb.Partial) { p.Key = nil },
		"another model": func(p *pb.Partial) { p.Key.Version++ },
		"other width":   func(p *pb.Partial) { p.Tensor.Cols = 2 },
		"other awaits":  func(p *pb.Partial) { p.Awaits = []byte{0b1110} },
		"awaits none":   func(p *pb.Partial) { p.Awaits = []byte{0} },
		"not awaited":   func(p *pb.Partial) { p.Awaits = []byte{0b0011} },
		"long awaits":   func(p *pb.Partial) { p.Awaits = []byte{0b1110, 0} },
		"bits beyond":   func(p *pb.Partial) { p.Awaits = []byte{0b11110} },
	} {
		gs := newGroups(shape(2), room)
		if _, _, err := gs.add(partial(key(2), x, []int{0}), now); err != nil {
			t.Fatal(err)
		}
		p := partial(key(2), x, []int{1, 2})
		change(p)
		var mismatch *wire.IdentityError
		if _, _, err := gs.add(p, now); !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &mismatch) {
			t.Errorf("%s: %v, want ErrMalformed or an IdentityError", name, err)
		}
		// The group is as good as before.
		if _, what, err := gs.add(partial(key(2), x, []int{1, 2, 3}), now); what != whole || err != nil {
			t.Errorf("after %s: outcome %d, %v", name, what, err)
		}
	}
}

// What a message claims costs a bit a place, what has arrived its bytes.
func TestClaimsTakeNoMemory(t *testing.T) {
	gs, x := newGroups(shape(2), room), noise(1, 2*width)
	const groups = 500
	for i := range groups {
		k := key(1000) // 24 KB of partials
		k.Step = uint64(i)
		if _, _, err := gs.add(partial(k, x, []int{1}), now); err != nil {
			t.Fatal(err)
		}
	}
	if len(gs.open) != groups || gs.bytes > groups*1024 {
		t.Errorf("%d groups take %d bytes", len(gs.open), gs.bytes)
	}
}

// Groups that nobody completes make room, the oldest first, and are counted;
// the newest has all that there is.
func TestEviction(t *testing.T) {
	const limit = 10 * 1024
	gs, x := newGroups(shape(2), limit), noise(1, 1000*width)
	for i := range 100 {
		k := key(1000)
		k.Step = uint64(i)
		if _, _, err := gs.add(partial(k, x, []int{0}), now); err != nil {
			t.Fatal(err)
		}
		if gs.bytes > limit {
			t.Fatalf("%d bytes are open, %d allowed", gs.bytes, limit)
		}
		if g := gs.open[idOf(&pb.Partial{Key: k})]; g == nil || gs.byAge.Back().Value != any(g) {
			t.Fatal("the newest group is not there")
		}
	}
	last := key(500)
	last.Step = 100
	if _, what, err := gs.add(partial(last, x, slices.Collect(seq(999))), now); what != waiting || err != nil || len(gs.open) != 1 {
		t.Errorf("outcome %d, %v with %d groups open; the large one alone is wanted", what, err, len(gs.open))
	}
	if _, what, err := gs.add(partial(last, x, []int{999}), now); what != whole || err != nil {
		t.Errorf("outcome %d, %v", what, err)
	}
	if n := gs.expire(now, time.Minute); n != 100 || gs.bytes != 0 {
		t.Errorf("%d evicted groups were counted, %d bytes are left; want 100 and none", n, gs.bytes)
	}
}

// Tombstones are bounded, too.
func TestTombstones(t *testing.T) {
	ts := tombstones{of: map[groupID]bool{}}
	for i := range uint64(2 * maxTombstones) {
		ts.add(groupID{step: i}, now)
	}
	if n := len(ts.of); n > maxTombstones || n != len(ts.order) || !ts.of[groupID{step: 2*maxTombstones - 1}] {
		t.Errorf("%d and %d tombstones", n, len(ts.order))
	}
}

func awaiting(p *pb.Partial, awaits ...byte) *pb.Partial { p.Awaits = awaits; return p }

// One partial answers two slots of a row: the gate awaits only the one. A row of
// which nothing is awaited is zeros.
func TestSharedSlots(t *testing.T) {
	gs, x := newGroups(shape(2), room), noise(1, 6*width)
	k := key(3)
	first, last := awaiting(partial(k, x, []int{0}), 0b100001), awaiting(partial(k, x, []int{5}), 0b100001)
	if _, what, err := gs.add(first, now); what != waiting || err != nil {
		t.Fatalf("outcome %d, %v", what, err)
	}
	g, what, err := gs.add(last, now)
	if what != whole || err != nil {
		t.Fatalf("outcome %d, %v", what, err)
	}
	want := slices.Concat(x[:width], make([]float32, width), x[5*width:])
	if got := gs.sum(g, noise(2, 3*width)); !slices.EqualFunc(got, want, sameBits) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Bytes from outside never panic, and what they open is bounded by what they claim.
func FuzzAdd(f *testing.F) {
	x := noise(1, 4*width)
	for _, p := range []*pb.Partial{
		partial(key(2), x, []int{0, 3}), partial(key(1), x, []int{0}), {Key: key(1), Place: []uint32{9}},
		awaiting(partial(key(2), x, []int{0, 3}), 0b1001), awaiting(partial(key(2), x, []int{0, 3}), 0b1011),
		partial(key(1), x, []int{1, 2}), awaiting(partial(key(1), x, []int{2}), 0b10), // 2 is the row's sum
	} {
		body, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := &pb.Partial{}
		if proto.Unmarshal(body, p) != nil {
			return
		}
		gs := newGroups(shape(2), room)
		for range 2 {
			g, what, err := gs.add(p, now)
			var mismatch *wire.IdentityError
			if err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &mismatch) {
				t.Errorf("%v has no class", err)
			}
			if what == whole {
				if out := gs.sum(g, nil); len(out) != int(p.Key.Rows)*width {
					t.Errorf("a block of %d numbers for %d rows", len(out), p.Key.Rows)
				}
			}
		}
	})
}

// What two gates made of one attempt is summed apart: a slot has one fate, that of the decision whose
// partials are whole. Fates that are not those of their decision are refused.
func TestDecisions(t *testing.T) {
	gs, k := newGroups(shape(2), room), key(1)
	x := noise(3, 2*width)
	of := func(places []int, codes ...wire.FateCode) *pb.Partial {
		p := partial(k, x, places)
		f := wire.EncodeFates(wire.FatesShape{Rows: 1, Layers: 1, Slots: 2}, codes)
		p.Decision = wire.HashFates(f)
		if places[0] == 0 {
			p.Fates = f
		}
		return p
	}
	first, second := of([]int{0}, wire.FateUnited, wire.FateOwn), of([]int{1}, wire.FateOwn, wire.FateUnited)
	for _, p := range []*pb.Partial{first, second} {
		if g, what, err := gs.add(p, now); g != nil || what != waiting || err != nil {
			t.Fatalf("half of a decision: %v, %v, %v", g, what, err)
		}
	}
	g, what, err := gs.add(of([]int{0}, wire.FateOwn, wire.FateUnited), now)
	if err != nil || what != whole || wire.HashFates(g.fates) != second.Decision {
		t.Errorf("the second decision is whole: %v, %v, %v", g, what, err)
	}
	forged := of([]int{0}, wire.FateUnited, wire.FateOwn)
	forged.Decision++
	if _, _, err := gs.add(forged, now); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("forged fates: %v", err)
	}
	left := of([]int{0}, wire.FateLeftOut, wire.FateOwn)
	if _, _, err := gs.add(left, now); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("an output of a slot that is left out: %v", err)
	}
	silent := partial(k, x, []int{0, 1})
	silent.Decision = 77
	if g, _, err := gs.add(silent, now); g != nil || !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("a decision that nobody tells: %v, %v", g, err)
	}
}
