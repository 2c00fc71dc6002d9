package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/internal/textfile"
	"github.com/switchyard/switchyard/loadtest/quality"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// EvalCmd measures what brownouts cost answers.
type EvalCmd struct {
	Model            string   `help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	United           string   `help:"Folder of united experts (switchyard distill)." placeholder:"DIR"`
	Recording        string   `required:"" help:"A recording (switchyard record): its held-out texts are fed. With united experts, that of their distillation." placeholder:"FILE"`
	Way              []string `default:"2,4,8,full" help:"Experts that a united expert stands in for; full for none; rivals are topk-1 and reroute." placeholder:"N"`
	Threshold        string   `default:"0:1:0.1" help:"Shares of rows that keep their own experts: a list, or FROM:TO:STEP." placeholder:"LIST"`
	Batch            []int    `default:"1,8,64" help:"Sequences that decode together." placeholder:"N"`
	Sequences        int      `default:"6" help:"Texts of each domain." placeholder:"N"`
	Length           int      `default:"64" help:"Most tokens of a text." placeholder:"N"`
	Choices          int      `default:"88" help:"Choices among four continuations, in all." placeholder:"N"`
	Task             []string `help:"Files of questions with options: LLM-Adapters' JSON, or XCOPA's lines; each may be packed (.gz)." placeholder:"FILE"`
	Questions        int      `default:"500" help:"Most questions of a task." placeholder:"N"`
	Shots            int      `default:"0" help:"Answered questions before each; 5 at most." placeholder:"N"`
	Exempt           []int    `help:"Layers that are not browned out." placeholder:"N"`
	ByLoss           bool     `help:"Choose whose rows are handed over by the error of distillation, at as few accesses."`
	Wire             string   `default:"bf16" enum:"bf16,f32" help:"Element type of rows between services: bf16 or f32." placeholder:"TYPE"`
	Seed             uint64   `default:"1" help:"Seed of the distillation, which says what was held out." placeholder:"N"`
	up.PrecisionFlag `embed:""`
	cli.KernelsFlag  `embed:""`
	Threads          int  `default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`
	JSON             bool `name:"json" help:"Print a JSON object a line."`
}

// Run measures, and prints a line for each way, threshold and batch as it is there.
func (c *EvalCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := c.SetPrecision(m); err != nil {
		return err
	}
	r, err := recording.Open(c.Recording)
	if err != nil {
		return cli.Usage(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	threads, err := up.NewPool(c.Threads)
	if err != nil {
		return err
	}
	defer threads.Close()
	line := e.Progress()
	defer line.Clear()
	s := quality.Settings{
		Model: m, Pool: threads, Recording: r, Seed: c.Seed, Ways: c.Way, Batches: c.Batch, Sequences: c.Sequences, Length: c.Length,
		Choices: c.Choices, Questions: c.Questions, Shots: c.Shots, Exempt: c.Exempt, ByLoss: c.ByLoss, Wire: up.ModelFlags{Wire: c.Wire}.WireType(), Progress: line.Set, Bundles: map[int]*united.Bundle{},
	}
	if s.Thresholds, err = thresholds(c.Threshold); err != nil {
		return cli.Usage(err)
	}
	if s.Tasks, err = tasks(c.Task); err != nil {
		return cli.Usage(err)
	}
	for _, way := range c.Way {
		n, err := strconv.Atoi(way)
		if err != nil || c.United == "" {
			continue
		}
		if s.Bundles[n], err = united.Open(c.United, n, m); err != nil {
			return cli.Usage(err)
		}
		defer func() { err = errors.Join(err, s.Bundles[n].Close()) }()
	}
	if err := s.Check(); err != nil {
		return cli.Usage(err)
	}
	return c.measure(ctx, e, s, line.Clear)
}

func (c *EvalCmd) measure(ctx context.Context, e *cli.Env, s quality.Settings, clearLine func()) error {
	if !c.JSON {
		_, _ = fmt.Fprintln(e.Out, "batch way     threshold  perplexity rise           top-1  lost points      loss    choice  lost points      accesses  degraded")
	}
	return quality.Run(ctx, s, func(l quality.Line) error {
		clearLine()
		if c.JSON {
			return json.NewEncoder(e.Out).Encode(l)
		}
		_, err := fmt.Fprintf(e.Out, "%5d %-8s %8.2f  %10.3f %+6.2f %% ± %5.2f  %5.3f  %+6.2f ± %5.2f  %+6.2f %%  %5.3f  %+6.2f ± %5.2f  %8.3f  %8.3f\n",
			l.Batch, l.Way, l.Threshold, l.Perplexity, 100*l.Rise, 100*l.RiseInterval, l.Top1, 100*l.Points, 100*l.Interval, 100*l.Loss,
			l.Choice, 100*l.ChoicePoints, 100*l.ChoiceInterval, l.Accesses, l.Degraded)
		for _, name := range slices.Sorted(maps.Keys(l.Tasks)) {
			_, errTask := fmt.Fprintf(e.Out, "      %s: %s\n", name, l.Tasks[name])
			err = errors.Join(err, errTask)
		}
		return err
	})
}

// mostTask bounds a file of questions, in bytes.
const mostTask = 8 << 20

// tasks reads files of questions; each has its file's name, without endings.
func tasks(paths []string) (list []quality.Task, err error) {
	for _, path := range paths {
		body, err := textfile.ReadSome(path, mostTask)
		if err != nil {
			return nil, fmt.Errorf("reading the task %s: %w", path, err)
		}
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		t, err := quality.ReadTask(name, body)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// mostThresholds bounds a list of thresholds.
const mostThresholds = 1001

// thresholds reads a list, or FROM:TO:STEP, in millionths.
func thresholds(text string) (list []int, err error) {
	if parts := strings.Split(text, ":"); len(parts) == 3 {
		return steps(text, parts)
	}
	for one := range strings.SplitSeq(text, ",") {
		t, err := threshold(one)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func steps(text string, parts []string) (list []int, err error) {
	from, err := threshold(parts[0])
	if err != nil {
		return nil, err
	}
	to, err := threshold(parts[1])
	if err != nil {
		return nil, err
	}
	step, err := threshold(parts[2])
	if err != nil {
		return nil, err
	}
	if step == 0 || to < from || (to-from)/step >= mostThresholds {
		return nil, fmt.Errorf("--threshold %s: it must rise by a step above 0, in %d thresholds at most", text, mostThresholds)
	}
	for t := from; t <= to; t += step {
		list = append(list, t)
	}
	return list, nil
}

func threshold(text string) (int, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		n = math.NaN()
	}
	t, err := brownout.Millionths(n)
	if err != nil {
		return 0, fmt.Errorf("--threshold %q: %w", text, err)
	}
	return t, nil
}
