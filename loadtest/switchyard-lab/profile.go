package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/loadtest/speeds"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// ProfileCmd measures an expert by memory. Its flags are no variables: other commands have some of
// these names.
type ProfileCmd struct {
	cli.KernelsFlag `embed:""`

	Model     string        `env:"-" help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	Synthetic string        `env:"-" help:"Random weights of a known shape instead, as bench has them, such as deepseek-v2-lite:1 for one layer of it." placeholder:"NAME"`
	Memory    string        `env:"-" default:"200:2000:100" help:"Memory sizes in MB, as FIRST:LAST:STEP or a list." placeholder:"MB,..."`
	PerCPU    float64       `env:"-" name:"memory-per-cpu" default:"1024" help:"MB of memory for which a function has one processor." placeholder:"MB"`
	Rows      []int         `env:"-" default:"1,8,64" help:"Rows of an access." placeholder:"N"`
	Time      time.Duration `env:"-" default:"500ms" help:"How long each point is measured, at least." placeholder:"TIME"`
	Out       string        `env:"-" required:"" help:"File to write, in JSON." placeholder:"FILE"`
	JSON      bool          `env:"-" name:"json" help:"Print a JSON object."`
}

// Run measures and writes.
func (c *ProfileCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	memory, err := cli.Megabytes("memory", c.Memory)
	if err != nil {
		return err
	}
	of := up.ModelFlags{Model: []string{c.Model}}
	if c.Synthetic != "" {
		of = up.Random(c.Synthetic)
	}
	m, err := of.OpenBy(ctx, e, up.OpenStoredNow)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	line := e.Progress()
	defer line.Clear()
	s := speeds.Settings{Model: m, Memory: memory, PerCPU: c.PerCPU * (1 << 20), Rows: c.Rows, Cores: runtime.GOMAXPROCS(0), Time: c.Time, Progress: line.Set}
	if err := s.Check(); err != nil {
		return cli.Usage(err)
	}
	if err := cli.TakesFiles("--out", filepath.Dir(c.Out)); err != nil {
		return err
	}
	f, err := speeds.Measure(ctx, s)
	if err != nil {
		return err
	}
	if err := f.Write(c.Out); err != nil {
		return err
	}
	line.Clear()
	return cli.Show(e, c.JSON, f, profileText(f))
}

// profileText is what was measured for people.
func profileText(f *mapfile.CurveFile) string {
	var b strings.Builder
	fmt.Fprintf(&b, "an expert of %s (%.2f MB) on cpu, %d cores; %s\n", f.Model, f.Bytes/1e6, f.Cores, f.How)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEMORY\tPROCESSORS\tROWS\tTIME\t")
	for _, p := range f.Points {
		note := ""
		if p.Extrapolated {
			note = "extrapolated"
		}
		fmt.Fprintf(w, "%.0f MB\t%.2f\t%d\t%.1f µs\t%s\n", p.Memory/(1<<20), p.CPUs, p.Rows, 1e6*p.Seconds, note)
	}
	w.Flush()
	for _, one := range f.Fits {
		if one.Refused != "" {
			fmt.Fprintf(&b, "%d rows: no fit: %s\n", one.Rows, one.Refused)
			continue
		}
		fmt.Fprintf(&b, "%d rows: T(y) = %.3g·exp(-%.4g·y) + %.3g s for y in GB, R² %.4f\n", one.Rows, one.Theta1, one.Theta2, one.Theta3, one.R2)
	}
	return b.String()
}
