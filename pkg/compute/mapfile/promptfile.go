package mapfile

import (
	"fmt"
	"os"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
)

// WritePrompts puts a snapshot of a store at path, in place of what is there.
func WritePrompts(path string, s *sps.Store) error {
	if err := wholefile.Write(path, s.Save); err != nil {
		return fmt.Errorf("writing prompts %s: %w", path, err)
	}
	return nil
}

// ReadPrompts reads the snapshot at path.
func ReadPrompts(path string) (*sps.Store, error) {
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
