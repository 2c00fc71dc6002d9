package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Show prints a result: as one JSON object on a line, or as text.
func Show(e *Env, asJSON bool, v any, text string) (err error) {
	if asJSON {
		err = json.NewEncoder(e.Out).Encode(v)
	} else {
		_, err = io.WriteString(e.Out, text)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Gigabytes returns a count of bytes for people.
func Gigabytes(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// TakesFiles refuses the folder of a flag where it takes no files, before hours are spent on what would be written there.
func TakesFiles(flag, folder string) error {
	probe, err := os.CreateTemp(folder, ".probe")
	if err != nil {
		return Usage(fmt.Errorf("%s: the folder takes no files: %w", flag, err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
