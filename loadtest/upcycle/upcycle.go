package upcycle

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/switchyard/switchyard/loadtest/checkpoint"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// ErrInput marks what is wrong with the dense model, the settings or the folder
// to write, rather than with writing.
var ErrInput = checkpoint.ErrInput

// Summary says what was written.
type Summary struct {
	Out     string `json:"out"`
	Family  string `json:"family"`
	Experts int    `json:"experts"`
	TopK    int    `json:"top_k"`
	Tensors int    `json:"tensors"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
}

// Run makes the folder out, which must not be there, of the dense model in dir.
// It is written under another name and checked before it gets its own, so that
// nothing half-made stays.
func Run(ctx context.Context, dir, out string, s Settings) (sum *Summary, err error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if err := checkpoint.CheckOut(out); err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is no folder", ErrInput, dir)
	}
	dense, err := model.OpenWeights(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	defer func() { err = errors.Join(err, dense.Close()) }()
	config, outputs, sum, err := prepare(dense, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInput, dir, err)
	}
	sum.Out = out
	return sum, checkpoint.InPlace(out, func(partial string) error {
		if err := checkpoint.CopySide(dense, partial); err != nil {
			return err
		}
		files := checkpoint.Shards(outputs, s.ShardBytes, (*output).bytes)
		sum.Files = len(files)
		w := &writer{dir: partial, seed: s.Seed, total: sum.Bytes, progress: s.Progress}
		if err := w.write(ctx, files); err != nil {
			return err
		}
		if err := checkpoint.WriteSide(partial, checkpoint.Config, config); err != nil {
			return err
		}
		return check(ctx, partial)
	})
}

func prepare(dense *model.Weights, s Settings) (config []byte, outputs []output, sum *Summary, err error) {
	data, ok := dense.File(checkpoint.Config)
	if !ok {
		return nil, nil, nil, fmt.Errorf("it has no readable %s; give the folder of a published dense model", checkpoint.Config)
	}
	kind, config, tied, err := readConfig(data, s)
	if err != nil {
		return nil, nil, nil, err
	}
	if _, _, err := model.ParseSpec(config, nil); err != nil {
		return nil, nil, nil, fmt.Errorf("with experts it cannot be served: %w", err)
	}
	if outputs, err = plan(kind, dense.Tensors(), tied, s); err != nil {
		return nil, nil, nil, err
	}
	sum = &Summary{Family: kind.moeType, Experts: s.Experts, TopK: s.TopK, Tensors: len(outputs)}
	for i := range outputs {
		sum.Bytes += outputs[i].bytes()
	}
	return config, outputs, sum, nil
}

// check opens what was written as whoever serves it will.
func check(ctx context.Context, partial string) error {
	m, err := model.OpenWith(ctx, partial, model.Settings{Unhashed: true})
	if err != nil {
		return fmt.Errorf("what came out cannot be served: %w", err)
	}
	return m.Close()
}
