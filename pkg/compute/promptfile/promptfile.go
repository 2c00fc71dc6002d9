// Package promptfile keeps stores of past prompts (pkg/policy/predict/sps) in files.
//
// A prompt's vector is made of its tokens, so a store tells of prompts. Files are readable by their
// owner alone, and have their name only when they are whole.
package promptfile

import (
	"fmt"
	"os"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
)

// Write puts a snapshot of a store at path, in place of what is there.
func Write(path string, s *sps.Store) error {
	if err := wholefile.Write(path, s.Save); err != nil {
		return fmt.Errorf("writing prompts %s: %w", path, err)
	}
	return nil
}

// Read reads the snapshot at path.
func Read(path string) (*sps.Store, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading prompts: %w", err)
	}
	defer func() { _ = file.Close() }() // it is only read
	s, err := sps.Load(file)
	if err != nil {
		return nil, fmt.Errorf("reading prompts %s: %w", path, err)
	}
	return s, nil
}
