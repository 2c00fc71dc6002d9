package cuda

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
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
	for _, gated := range []bool{true, false} {
		s := shape{hidden: 96, width: 160, parts: 2, rows: 70, layers: []layer{{width: 160, gated: gated, activation: 1, limit: 7}}}
		k := &kernels{split: named("rows_split_p2"), variants: [formats][]variant{{{cut: cuts[0], in: named("experts_in_p2_t8"), up: named("experts_up_p2_t8"), down: named("project_p2_t8")}}}}
		c := &call{order: make([]int32, 5), tiles: make([]tile, 3), longest: 4, tables: tables{in: 16, down: 32, tiles: 48, source: 64, weight: 80, x: 96}}
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

type named string

func (n named) Name() string { return string(n) }

// Blocks and shared memory of the cuts are the list's.
func TestCutsAreTheList(t *testing.T) {
	for _, c := range cuts {
		shared := func(f format) string {
			return fmt.Sprintf("%d, %d", c.sharedBytes(f, 1), c.sharedBytes(f, 2))
		}
		want := fmt.Sprintf("`t%d`|%d|%d|%s|%s|%s", c.tile, c.features, c.block, shared(bf16), shared(fp8), shared(mxfp4))
		found := slices.ContainsFunc(list(t), func(row []string) bool {
			if len(row) < 7 {
				return false
			}
			cells := []string{row[0], row[1], row[2], row[4], row[5], row[6]}
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			return strings.Join(cells, "|") == want
		})
		if !found {
			t.Errorf("the list has no cut %s", want)
		}
	}
}
