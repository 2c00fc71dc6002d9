package upcycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// ErrInput marks what is wrong with the dense model, the settings or the folder
// to write, rather than with writing.
var ErrInput = errors.New("unusable input")

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

// besides are the files that go along as they are.
var besides = []string{"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "vocab.txt", "added_tokens.json",
	"special_tokens_map.json", "tokenizer.model", "chat_template.jinja", "generation_config.json"}

// Run makes the folder out, which must not be there, of the dense model in dir.
// It is written under another name and checked before it gets its own, so that
// nothing half-made stays.
func Run(ctx context.Context, dir, out string, s Settings) (sum *Summary, err error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is there already; name another folder, or remove it", ErrInput, out)
	}
	dense, err := model.OpenWeights(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	defer func() { err = errors.Join(err, dense.Close()) }()
	config, outputs, sum, err := prepare(dir, dense, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInput, dir, err)
	}
	sum.Out = out
	return sum, inPlace(out, func(partial string) error {
		if err := copyBesides(dir, partial, config); err != nil {
			return err
		}
		files := shards(outputs, s.ShardBytes)
		sum.Files = len(files)
		w := &writer{dir: partial, seed: s.Seed, total: sum.Bytes, progress: s.Progress}
		if err := w.write(ctx, files); err != nil {
			return err
		}
		return check(ctx, partial)
	})
}

// prepare decides all that will be written.
func prepare(dir string, dense *model.Weights, s Settings) (config []byte, outputs []output, sum *Summary, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading config.json: %w", err)
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

// inPlace lets write fill a folder beside out, which becomes out if it worked.
func inPlace(out string, write func(partial string) error) (err error) {
	partial, err := os.MkdirTemp(filepath.Dir(out), "."+filepath.Base(out)+"-*")
	if err != nil {
		return fmt.Errorf("making a folder beside %s: %w", out, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := os.Chmod(partial, 0o755); err != nil { //nolint:gosec // a model is for others to read, as a folder made by hand is
		return err
	}
	if err := write(partial); err != nil {
		return err
	}
	return os.Rename(partial, out)
}

// copyBesides writes the config and copies what the tokenizer needs.
func copyBesides(dir, partial string, config []byte) error {
	if err := os.WriteFile(filepath.Join(partial, "config.json"), config, 0o644); err != nil { //nolint:gosec // for others to read
		return err
	}
	for _, name := range besides {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(partial, name), data, 0o644); err != nil { //nolint:gosec // for others to read
			return err
		}
	}
	return nil
}

// check opens what was written as whoever serves it will.
func check(ctx context.Context, partial string) error {
	m, err := model.OpenWith(ctx, partial, model.Settings{Unhashed: true})
	if err != nil {
		return fmt.Errorf("what came out cannot be served: %w", err)
	}
	return m.Close()
}
