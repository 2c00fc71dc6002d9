package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/loadtest/distill"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// DistillCmd makes united experts.
type DistillCmd struct {
	cli.KernelsFlag `embed:""`

	Model       string  `arg:"" optional:"" name:"dir" help:"Hugging Face model directory; without it the demo model in this binary."`
	Way         []int   `default:"2,4,8" help:"How many experts a united expert stands in for; a file is made for each." placeholder:"N"`
	Loss        string  `default:"routed" enum:"routed,eq4" help:"What students learn by: routed (rows that chose a member, with their weights) or eq4 (every member on every row, as BrownoutServe prints it)." placeholder:"NAME"`
	Start       string  `default:"best" enum:"best,busiest,mean,matched" help:"What a student is at first: the member with most rows (busiest), the members' mean, their mean with neurons matched, or the best of these." placeholder:"NAME"`
	Group       string  `default:"id" enum:"id,output" help:"Which experts share a united expert: those with numbers that follow each other (id), or those that give much the same for the rows of either (output)." placeholder:"NAME"`
	Through     int     `default:"330000" help:"Rows of each way that go through the whole model in brownouts, for students to learn from what it says; 0: from the experts' outputs alone." placeholder:"N"`
	ThroughRate float32 `default:"0.002" help:"Highest rate of learning from the whole model." placeholder:"RATE"`
	Out         string  `required:"" help:"Folder to write. What is done so far lies there; the same command goes on with it." placeholder:"DIR"`
	Recording   string  `help:"A recording made before (switchyard record), in place of texts." placeholder:"FILE"`
	Passes      int     `default:"3" help:"Most passes over a student's rows." placeholder:"N"`
	Rows        int     `default:"24000" help:"Most rows that a student learns from." placeholder:"N"`
	Batch       int     `default:"64" help:"Rows of a step of learning." placeholder:"N"`
	Rate        float32 `default:"0.003" help:"Learning rate of the first step." placeholder:"RATE"`
	JSON        bool    `name:"json" help:"Print the table of losses as a JSON object."`

	RecordFlags `embed:""`
}

// Distilled is what was made.
type Distilled struct {
	Model   string                  `json:"model"`
	Loss    string                  `json:"loss"`
	Data    string                  `json:"data"`
	Rows    int                     `json:"rows"`
	Seconds float64                 `json:"distill_seconds"` // of this run
	Ways    map[int][]united.Group  `json:"ways"`
	Means   map[int]DistilledErrors `json:"errors"`
}

// DistilledErrors are means over groups, weighted by their held-out rows; 1 is as bad as dropping.
type DistilledErrors struct {
	Groups   int     `json:"groups"`
	Without  int     `json:"groups_without"`
	Error    float64 `json:"error"`
	Averaged float64 `json:"error_averaged"`
	Busiest  float64 `json:"error_busiest"`
	Members  float64 `json:"error_members"`
}

// Run records texts unless that is done, distils, and prints what is lost.
func (c *DistillCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	line := e.Progress()
	defer line.Clear()
	var one sync.Mutex // workers tell their progress
	tell := func(format string, args ...any) {
		one.Lock()
		defer one.Unlock()
		line.Set(format, args...)
	}
	if err := cli.TakesFiles("--out", filepath.Dir(filepath.Clean(c.Out))); err != nil {
		return err
	}
	recorded := TrainPredictorCmd{Out: filepath.Clean(c.Out), Recording: c.Recording, RecordFlags: c.RecordFlags}
	r, err := recorded.open(ctx, m, tell)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	out, err := c.distill(ctx, m, r, tell)
	if err != nil {
		return err
	}
	if c.Recording == "" {
		if err := os.Remove(recorded.recorded()); err != nil {
			return fmt.Errorf("removing the recording: %w", err)
		}
	}
	line.Clear()
	return cli.Show(e, c.JSON, out, out.String())
}

func (c *DistillCmd) distill(ctx context.Context, m *model.Model, r *recording.Recording, tell func(string, ...any)) (*Distilled, error) {
	s := distill.Default()
	s.Model, s.Recording, s.Ways, s.Loss, s.Start, s.Out, s.Progress = m, r, c.Way, c.Loss, c.Start, c.Out, tell
	s.Group, s.Batch, s.Through, s.ThroughRate = c.Group, c.Batch, c.Through, c.ThroughRate
	s.Passes, s.Rows, s.Rate, s.Seed, s.Threads = c.Passes, c.Rows, c.Rate, c.Seed, up.ModelFlags{Threads: c.Threads}.ComputeThreads()
	if err := s.Check(); err != nil {
		return nil, cli.Usage(err)
	}
	began := time.Now()
	all, err := distill.Run(ctx, s)
	if err != nil {
		return nil, err
	}
	out := &Distilled{Model: m.Hash, Loss: c.Loss, Data: distill.Data(r), Rows: r.Rows, Seconds: time.Since(began).Seconds()}
	out.Ways, out.Means = map[int][]united.Group{}, map[int]DistilledErrors{}
	for way, h := range all {
		out.Ways[way], out.Means[way] = h.Table, meanErrors(h.Table)
	}
	return out, nil
}

func meanErrors(table []united.Group) (e DistilledErrors) {
	rows := 0.0
	for _, g := range table {
		if g.Rows == 0 {
			e.Without++
			continue
		}
		n := float64(g.HeldOut)
		e.Groups++
		rows += n
		e.Error, e.Averaged, e.Busiest, e.Members = e.Error+n*g.Error, e.Averaged+n*g.Averaged, e.Busiest+n*g.Busiest, e.Members+n*g.Members
	}
	if rows > 0 {
		e.Error, e.Averaged, e.Busiest, e.Members = e.Error/rows, e.Averaged/rows, e.Busiest/rows, e.Members/rows
	}
	return e
}

// String is the table for people.
func (d *Distilled) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "loss %s, %d recorded rows, distilled in %.0f s; errors on held-out rows, as shares of what dropping costs\n", d.Loss, d.Rows, d.Seconds)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "way\tunited experts\tgroups without\terror\tmean weights\tbusiest member\tevery member on every row\t")
	ways := make([]int, 0, len(d.Means))
	for way := range d.Means {
		ways = append(ways, way)
	}
	slices.Sort(ways)
	for _, way := range ways {
		m := d.Means[way]
		fmt.Fprintf(table, "%d\t%d\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t\n", way, m.Groups, m.Without, m.Error, m.Averaged, m.Busiest, m.Members)
	}
	_ = table.Flush() // a builder takes everything
	return text.String()
}
