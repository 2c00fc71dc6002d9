package modeltest

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Tiny returns a synthetic model: 2 MoE layers, 4 experts, 2 of them a token.
func Tiny(t testing.TB) *model.Model {
	t.Helper()
	m, err := model.Synthetic("tiny", 7)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Golden returns one of the committed checkpoints, for what Tiny has not: shared and
// dense experts, biases, a sliding window, other activations.
func Golden(t testing.TB, name string) *model.Model {
	t.Helper()
	return Open(t, goldens.Dir(name))
}

// Open opens the model of a folder until the test ends.
func Open(t testing.TB, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // a mapping
	return m
}
