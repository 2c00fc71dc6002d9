package mapfile

import (
	"fmt"
	"os"

	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

// ReadTable returns the table in a file, which must be of the model with this hash, and its digest.
func ReadTable(path, model string) (t *bayes.Table, digest string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("reading the table: %w", err)
	}
	if t, err = bayes.Unmarshal(data); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	if t.Model != model {
		return nil, "", fmt.Errorf("%s: %w: it is of the model with hash %.16s, and this one has %.16s; build one of a recording of this model", path, bayes.ErrTable, t.Model, model)
	}
	return t, bayes.Digest(data), nil
}
