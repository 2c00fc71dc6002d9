package cuda

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// list is the list of kernels that their sources are written to.
func list(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../../../kernels/cuda/src/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.TrimSpace(line), "|"); strings.HasPrefix(line, "| `") && len(cells) > 5 {
			rows = append(rows, cells[1:len(cells)-1])
		}
	}
	return rows
}

var (
	name    = regexp.MustCompile("`([a-z_]+)`")
	choices = regexp.MustCompile(`\{([a-z0-9,]+)\}`)
)

// parameters are those of a kernel in the list. One that has the same as the kernel
// before it says so.
func parameters(t *testing.T, kernel string) (names []string) {
	t.Helper()
	for _, row := range list(t) {
		if given := name.FindAllStringSubmatch(row[1], -1); !strings.HasPrefix(row[1], " the same") {
			names = names[:0]
			for _, g := range given {
				names = append(names, g[1])
			}
		}
		pattern := choices.ReplaceAllStringFunc(strings.Trim(row[0], " `"), func(c string) string {
			return "(" + strings.ReplaceAll(strings.Trim(c, "{}"), ",", "|") + ")"
		})
		if regexp.MustCompile("^" + pattern + "$").MatchString(kernel) {
			return names
		}
	}
	t.Fatalf("the list has no kernel %s", kernel)
	return nil
}

// Launches have the parameters that the list says, in its order: each is recognised by
// its value.
func TestParametersAreTheList(t *testing.T) {
	const upload = 0x10000
	b := &buffers{upload: upload, x: 0x20000, act: 0x30000, out: 0x40000}
	for _, tt := range []struct {
		gated bool
		format
	}{{true, bf16}, {false, bf16}, {true, tiled}, {false, tiled}} {
		s := shape{hidden: 96, width: 160, parts: 2, rows: 70, layers: []layer{{width: 160, format: tt.format, gated: tt.gated, activation: 1, limit: 7}}}
		one := func(kernel string) named { return named(kernel + "_" + tt.format.infix() + "p2_t8") }
		k := &kernels{split: named("rows_split_p2"), pieces: named("rows_pieces_p2"), sum: named("sum_slots")}
		k.variants[tt.format] = []variant{{cut: cutsFor(tt.format, 2)[0], in: one("experts_in"), up: one("experts_up"), down: one("project")}}
		c := &call{order: make([]int32, 5), tiles: make([]tile, 3), longest: 4, sums: true, tables: tables{in: 16, down: 32, tiles: 48, source: 64, weight: 80, first: 112, at: 128, x: 96}}
		var l launches
		l.fill(k, s, b, c)
		for _, launch := range []struct {
			l    *cuda.Launch
			want map[string]uint64
		}{
			{&l.split, map[string]uint64{"planes": 0x20000, "x": upload + 96, "source": upload + 64, "scale": 0, "k": 96, "kp": 128, "ldx": 96, "plane": 70}},
			{&l.in, map[string]uint64{
				"act": 0x30000, "x": 0x20000, "tile": upload + 48, "groups": upload + 16, "f": 160, "fp": 192, "kp": 128,
				"act_plane": 70, "x_plane": 70, "tiles": 3, "activation": 1, "limit": 0x40e00000,
			}},
			{&l.down, map[string]uint64{
				"out": 0x40000, "x": 0x30000, "tile": upload + 48, "groups": upload + 32, "dest": 0, "scale": upload + 80, "n": 96, "kp": 192,
				"x_plane": 70, "ldout": 96, "tiles": 3, "add": 0,
			}},
			{&l.sum, map[string]uint64{"dst": upload + 96, "slots": 0x40000, "first": upload + 112, "at": upload + 128, "d": 96, "rounded": 0}},
		} {
			var want []uint64
			for _, p := range parameters(t, launch.l.Kernel.Name()) {
				v, ok := launch.want[p]
				if !ok {
					t.Errorf("%s has a parameter %s", launch.l.Kernel.Name(), p)
				}
				want = append(want, v)
			}
			if !slices.Equal(launch.l.Args, want) {
				t.Errorf("%s is given %x, want %x", launch.l.Kernel.Name(), launch.l.Args, want)
			}
		}
	}
}

// So has that of random weights, in rows or in tiles.
func TestRandomParametersAreTheList(t *testing.T) {
	r := &random{kernel: named("random_weights"), numbers: map[float64]cuda.Ptr{0.5: 0x20000}}
	of := model.Random{Stream: 1 << 63, Deviation: 0.5, Rows: 70, Columns: 96}
	for _, tt := range []struct {
		format
		at, tensors uint64
		grid        uint32
	}{{bf16, 0x10000 + 2*128*70, 0, 2}, {tiled, 0x10000, 2, 2}} {
		l := r.launch(matrix{refs: make([]model.Ref, 2), n: 140, k: 96, format: tt.format}, 0x10000, of, 1, 70)
		want := map[string]uint64{"to": tt.at, "numbers": 0x20000, "stream": 1 << 63, "n": 70, "k": 96, "kp": 128, "tensors": tt.tensors, "tensor": 1}
		var args []uint64
		for _, p := range parameters(t, "random_weights") {
			args = append(args, want[p])
		}
		if !slices.Equal(l.Args, args) || l.Grid != [3]uint32{tt.grid, 1, 1} || l.Block != [3]uint32{256, 1, 1} {
			t.Errorf("%v blocks are given %x, want %x", l.Grid, l.Args, args)
		}
	}
}

type named string

func (n named) Name() string { return string(n) }

// Blocks and shared memory of the cuts are the list's.
func TestCutsAreTheList(t *testing.T) {
	for _, c := range cuts {
		shared := func(f format) string {
			return fmt.Sprintf("%d, %d", c.sharedBytes(f, 1), c.sharedBytes(f, 2))
		}
		listed(t, []int{0, 1, 2, 4, 5, 6}, fmt.Sprintf("`t%d`|%d|%d|%s|%s|%s", c.tile, c.features, c.block, shared(bf16), shared(fp8), shared(mxfp4)))
	}
	for i, one := range cutsFor(tiled, 1) {
		two := cutsFor(tiled, 2)[i]
		listed(t, []int{0, 1, 2, 3, 4, 5}, fmt.Sprintf("`wgmma t%d`|%d|%d|%d, %d|%d, %d|%d", one.tile, one.features, one.block,
			one.stages, two.stages, one.sharedBytes(tiled, 1), two.sharedBytes(tiled, 2), one.atOnce))
	}
}

// listed wants a row of the list with these cells.
func listed(t *testing.T, cells []int, want string) {
	t.Helper()
	for _, row := range list(t) {
		if len(row) < 7 {
			continue
		}
		var got []string
		for _, i := range cells {
			got = append(got, strings.TrimSpace(row[i]))
		}
		if strings.Join(got, "|") == want {
			return
		}
	}
	t.Errorf("the list has no cut %s", want)
}
