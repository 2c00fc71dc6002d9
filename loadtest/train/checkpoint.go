package train

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/predictors"
)

// checkpoint is a weights file of the units that are done.
type checkpoint struct {
	path string

	mu      sync.Mutex
	weights *predictors.Weights
}

// openCheckpoint goes on with the file at path if it is of the same model, recording
// and settings as empty, and begins with empty if there is none.
func openCheckpoint(path string, empty *predictors.Weights) (*checkpoint, error) {
	c := &checkpoint{path: path, weights: empty}
	w, err := predictors.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("going on with earlier training: %w; remove the file to begin anew", err)
	case w.Model != empty.Model || w.Note != empty.Note:
		return nil, fmt.Errorf("%s is of other training (%s); remove it to begin anew, or choose another --out", path, w.Note)
	}
	w.Hidden, w.Experts = empty.Hidden, empty.Experts
	c.weights = w
	return c, nil
}

// has reports whether a unit is done.
func (c *checkpoint) has(u unit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.weights.Measured, func(a predictors.Accuracy) bool {
		return a.Distance == u.distance && a.Layer == u.target
	})
}

// add takes in a unit that is done.
func (c *checkpoint) add(u unit, r trained) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.tuned != nil {
		c.weights.Set(u.distance, u.target, *r.tuned)
	}
	c.weights.Measured = append(c.weights.Measured, r.measured...)
	return c.save()
}

// save writes the file anew, so that it is whole whatever happens, and the same
// in whatever order units ended.
func (c *checkpoint) save() error {
	slices.SortStableFunc(c.weights.Measured, func(a, b predictors.Accuracy) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Layer, b.Layer))
	})
	file, err := os.Create(c.path + ".new")
	if err != nil {
		return fmt.Errorf("keeping what is trained: %w", err)
	}
	if err := errors.Join(c.weights.Write(file), file.Close()); err != nil {
		return fmt.Errorf("keeping what is trained: %w", errors.Join(err, os.Remove(file.Name())))
	}
	if err := os.Rename(file.Name(), c.path); err != nil {
		return fmt.Errorf("keeping what is trained: %w", err)
	}
	return nil
}
