package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/switchyard/switchyard/loadtest/record"
	"github.com/switchyard/switchyard/loadtest/train"
	policy "github.com/switchyard/switchyard/loadtest/train/networks"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// TrainPredictorCmd makes the weights of load predictors.
type TrainPredictorCmd struct {
	cli.KernelsFlag `embed:""`

	Model     string   `help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	Out       string   `required:"" help:"Weights file to write, in the safetensors format. What is done so far lies beside it; the same command goes on with it." placeholder:"FILE"`
	Recording string   `help:"A recording made before (switchyard record), in place of texts." placeholder:"FILE"`
	Distance  int      `default:"5" help:"Predict 1 up to N layers ahead." placeholder:"N"`
	Threshold float64  `default:"0.9" help:"Accuracy below which a layer's gate is fine-tuned, and a copy gets an adapter." placeholder:"RATIO"`
	Adapters  []int    `default:"64,128" help:"Widths of adapters, tried one after the other where a copy alone stays below the threshold; 0 is none." placeholder:"N"`
	Promoe    []int    `default:"0" help:"Widths of the networks that are trained as ProMoE does, for comparison; 0 is an eighth of the model's, as large beside a model as in the paper." placeholder:"N"`
	Passes    int      `default:"12" help:"Most passes over the rows." placeholder:"N"`
	Rate      float32  `default:"0.003" help:"Learning rate of the first step." placeholder:"RATE"`
	JSON      bool     `name:"json" help:"Print the report as a JSON object."`
	More      []string `arg:"" optional:"" name:"text" help:"Further files of texts."`

	RecordFlags `embed:""`
}

// Run records texts unless that is done, trains, and prints how right the predictors are.
func (c *TrainPredictorCmd) Run(ctx context.Context, e *cli.Env) (err error) {
	m, err := up.OpenModel(ctx, e, c.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	line := e.Progress()
	defer line.Clear()
	var one sync.Mutex // training tells its progress from several goroutines
	tell := func(format string, args ...any) {
		one.Lock()
		defer one.Unlock()
		line.Set(format, args...)
	}
	r, err := c.open(ctx, m, tell)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	report, err := c.train(ctx, m, r, tell)
	if err != nil {
		return err
	}
	if c.Recording == "" {
		if err := os.Remove(c.recorded()); err != nil {
			return fmt.Errorf("removing the recording: %w", err)
		}
	}
	line.Clear()
	return cli.Show(e, c.JSON, report, report.String())
}

func (c *TrainPredictorCmd) recorded() string { return c.Out + ".recording" }

// open opens the recording, and makes it first if there is none of these texts.
func (c *TrainPredictorCmd) open(ctx context.Context, m *model.Model, tell func(string, ...any)) (*recording.Recording, error) {
	s := c.RecordFlags.settings(c.More)
	if c.Recording != "" {
		if len(s.Texts) > 0 {
			return nil, cli.Usage(errors.New("--recording and --texts exclude each other"))
		}
		r, err := recording.Open(c.Recording)
		if err != nil {
			return nil, cli.Usage(err)
		}
		return r, nil
	}
	threads, err := up.NewPool(c.Threads)
	if err != nil {
		return nil, err
	}
	defer threads.Close()
	s.Model, s.Pool, s.Inputs, s.Progress = m, threads, true, tell
	if err := s.Check(); err != nil {
		return nil, cli.Usage(err)
	}
	if r, err := recording.Open(c.recorded()); err == nil {
		if r.Note == s.Note() && r.Model == m.Hash {
			return r, nil
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	if err := cli.TakesFiles("--out", filepath.Dir(c.Out)); err != nil {
		return nil, err
	}
	if _, err := record.Run(ctx, s, c.recorded()); err != nil {
		return nil, unusable(err)
	}
	return recording.Open(c.recorded())
}

func (c *TrainPredictorCmd) train(ctx context.Context, m *model.Model, r *recording.Recording, tell func(string, ...any)) (*train.Report, error) {
	s := train.Settings{
		Model: m, Recording: r, Distances: c.Distance, Threshold: c.Threshold, Training: policy.Default(),
		Threads: up.ModelFlags{Threads: c.Threads}.ComputeThreads(), Out: c.Out, Progress: tell,
	}
	for _, w := range c.Adapters {
		if w != 0 {
			s.Adapters = append(s.Adapters, w)
		}
	}
	for _, w := range c.Promoe {
		s.Networks = append(s.Networks, cmp.Or(w, max(1, m.Spec.Hidden/8)))
	}
	s.Training.Seed, s.Training.Passes, s.Training.Rate = c.Seed, c.Passes, c.Rate
	if err := s.Check(); err != nil {
		return nil, cli.Usage(err)
	}
	if err := cli.TakesFiles("--out", filepath.Dir(c.Out)); err != nil {
		return nil, err
	}
	began := time.Now()
	w, err := train.Run(ctx, s)
	if err != nil {
		return nil, err
	}
	return train.NewReport(s, w, time.Since(began))
}
