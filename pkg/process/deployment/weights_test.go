package deployment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/weights"
)

// What the object store is to blame for is tried again, and nothing else.
func TestLoadWeights(t *testing.T) {
	d := &Deployment{Model: &model.Model{}, Logger: slog.New(slog.DiscardHandler)}
	slow := fmt.Errorf("layer 1: %w", &weights.ObjectError{Model: "m", Object: "layer.1", Err: weights.ErrSlow})
	other := errors.New("no such kind of attention")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tests := []struct {
		name  string
		ends  []error // of one try after the other
		tries int
		want  error
	}{
		{"works", []error{nil}, 1, nil},
		{"works in the end", []error{slow, nil}, 2, nil},
		{"will never work", []error{slow, other}, 2, other},
		{"stopped", []error{slow}, 1, weights.ErrSlow},
	}
	for _, tt := range tests {
		tries := 0
		err := d.LoadWeights(ctx, "loading", func(*model.Model) error {
			tries++
			if tt.name == "stopped" {
				stop()
			}
			return tt.ends[tries-1]
		})
		if tries != tt.tries || !errors.Is(err, tt.want) {
			t.Errorf("%s: %v after %d tries", tt.name, err, tries)
		}
	}
}
