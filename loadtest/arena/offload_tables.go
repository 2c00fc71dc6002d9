package arena

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// tablesOf are tables of text for a report's reader: one for each part, routing and budget, with a column
// for each shape, in the mean of seeds.
type tablesOf struct {
	r      *OffloadReport
	shapes []string
	out    strings.Builder
}

// tableKey tells tables apart, rowKey their rows.
type (
	tableKey struct {
		part, routing string
		budget        float64
	}
	rowKey struct {
		policy, constant string
		value            float64
	}
)

// writeTables writes tables.md.
func (r *OffloadReport) writeTables(w io.Writer) error {
	t := tablesOf{r: r}
	for _, l := range r.Lines {
		if !slices.Contains(t.shapes, l.Shape) {
			t.shapes = append(t.shapes, l.Shape)
		}
	}
	t.lines()
	t.claims()
	t.gaps()
	_, err := io.WriteString(w, t.out.String())
	return err
}

// lines have TTFT and TPOT in ms, hits and what came late in percent.
func (t *tablesOf) lines() {
	var order []tableKey
	rows, cells := map[tableKey][]rowKey{}, map[tableKey]map[rowKey]map[string][]*OffloadLine{}
	for i := range t.r.Lines {
		l := &t.r.Lines[i]
		k, row := tableKey{l.Part, l.Routing, l.Budget}, rowKey{l.Policy, l.Constant, l.Value}
		if k.routing == routingRecorded {
			k.routing = routingFitted // the demo model's is its own
		}
		if cells[k] == nil {
			order, cells[k] = append(order, k), map[rowKey]map[string][]*OffloadLine{}
		}
		if cells[k][row] == nil {
			rows[k], cells[k][row] = append(rows[k], row), map[string][]*OffloadLine{}
		}
		cells[k][row][l.Shape] = append(cells[k][row][l.Shape], l)
	}
	for _, k := range order {
		t.head(fmt.Sprintf("%s, %s routing, %v GB: TTFT / TPOT / hits %% / late %%", k.part, k.routing, k.budget), "policy")
		for _, row := range rows[k] {
			t.row(strings.TrimSpace(fmt.Sprintf("%s %s %s", row.policy, row.constant, valued(row.value))), func(shape string) string {
				of := cells[k][row][shape]
				if len(of) == 0 {
					return ""
				}
				late := meanOf(of, func(l *OffloadLine) float64 { return l.Late })
				return fmt.Sprintf("%.1f / %.1f / %.1f / %.1f", meanOf(of, ttft.of), meanOf(of, tpot.of), 100*meanOf(of, hits.of), 100*late)
			})
		}
	}
}

func valued(v float64) string {
	if v == 0 {
		return ""
	}
	return number(v)
}

// claims are changes in percent, beside the paper's.
func (t *tablesOf) claims() {
	t.head("beside the paper (its figure is the row's last number), changes in %", "what")
	type key struct {
		policy, what, against string
		budget, paper         float64
	}
	var order []key
	cells := map[key]map[string]OffloadClaim{}
	for _, c := range t.r.Claims {
		if c.Routing != routingFitted && c.Routing != routingRecorded {
			continue
		}
		k := key{c.Policy, c.What, c.Against, c.Budget, c.Paper}
		if cells[k] == nil {
			order, cells[k] = append(order, k), map[string]OffloadClaim{}
		}
		cells[k][c.Shape] = c
	}
	for _, k := range order {
		t.row(fmt.Sprintf("%s %s against %s, %v GB: %+.0f", k.policy, k.what, k.against, k.budget, 100*k.paper), func(shape string) string {
			c, ok := cells[k][shape]
			if !ok {
				return ""
			}
			return fmt.Sprintf("%+.1f (%+.1f to %+.1f)", 100*c.Change, 100*c.Low, 100*c.High)
		})
	}
}

// gaps are the best baseline's TPOT, the policy's, the limit's, the floor, and what is closed.
func (t *tablesOf) gaps() {
	t.head("gap from the best baseline to the limit: TPOT of it / policy / limit / floor: closed %", "policy")
	type key struct {
		policy, routing string
		budget          float64
	}
	var order []key
	cells := map[key]map[string]OffloadGap{}
	for _, g := range t.r.Gaps {
		k := key{g.Policy, g.Routing, g.Budget}
		if cells[k] == nil {
			order, cells[k] = append(order, k), map[string]OffloadGap{}
		}
		cells[k][g.Shape] = g
	}
	for _, k := range order {
		t.row(fmt.Sprintf("%s, %s, %v GB", k.policy, k.routing, k.budget), func(shape string) string {
			g, ok := cells[k][shape]
			if !ok {
				return ""
			}
			return fmt.Sprintf("%s %.1f / %.1f / %.1f / %.1f: %.0f", g.Best, g.BestTPOT, g.TPOT, g.Limit, g.Floor, 100*g.Closed)
		})
	}
}

func (t *tablesOf) head(title, first string) {
	fmt.Fprintf(&t.out, "\n## %s\n\n| %s | %s |\n|%s\n", title, first, strings.Join(t.shapes, " | "), strings.Repeat("---|", len(t.shapes)+1))
}

func (t *tablesOf) row(name string, cell func(shape string) string) {
	fmt.Fprintf(&t.out, "| %s |", name)
	for _, shape := range t.shapes {
		fmt.Fprintf(&t.out, " %s |", cell(shape))
	}
	t.out.WriteString("\n")
}
