package main

import (
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/internal/textfile"
)

// mostText is how much is read of a file of text, in bytes.
const mostText = 1 << 20

// readText reads the beginning of a file of text, plain or packed.
func readText(path string) (string, error) {
	body, err := textfile.ReadSome(path, mostText)
	if err != nil {
		return "", fmt.Errorf("reading text %s: %w", path, err)
	}
	return strings.ToValidUTF8(string(body), ""), nil
}
