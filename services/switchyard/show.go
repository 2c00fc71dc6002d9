package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// show prints a result: as one JSON object on a line, or as text.
func show(e *env, asJSON bool, v any, text string) (err error) {
	if asJSON {
		err = json.NewEncoder(e.out).Encode(v)
	} else {
		_, err = io.WriteString(e.out, text)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// gigabytes writes a count of bytes for people.
func gigabytes(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
