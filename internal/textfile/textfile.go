// Package textfile reads documents of text from files, plain, as JSON lines or as a list in JSON, packed or not.
package textfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// separator is the line between two documents of a plain text.
	separator = "<|endoftext|>"
	// mostText bounds the text of one file, unpacked, in bytes.
	mostText = 256 << 20
)

// ErrTexts is of files that cannot be used.
var ErrTexts = errors.New("reading texts")

// fields are what is read of a JSON object, in this order.
var fields = []string{"text", "prompt", "instruction", "input", "premise", "question", "choice1", "choice2", "context", "content", "output", "answer"}

// SplitName takes NAME=FILE apart; a FILE alone is named by what its name begins with.
func SplitName(text string) (domain, path string) {
	if name, file, ok := strings.Cut(text, "="); ok && name != "" && !strings.ContainsAny(name, `/\`) {
		return name, file
	}
	name, _, _ := strings.Cut(filepath.Base(text), ".")
	return name, text
}

// Read reads a file's documents: plain text, with a line <|endoftext|> between
// documents, one JSON object a line (.jsonl), or a list of them (.json); each may be packed (.gz).
func Read(path string) ([]string, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrTexts, path, err)
	}
	var documents []string
	switch filepath.Ext(strings.TrimSuffix(path, ".gz")) {
	case ".jsonl":
		documents, err = splitLines(data)
	case ".json":
		documents, err = splitList(data)
	default:
		documents = splitText(string(data))
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrTexts, path, err)
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%w %s: there is no text in it", ErrTexts, path)
	}
	return documents, nil
}

// ReadSome reads at most so many bytes of a file, unpacked if it is packed (.gz).
func ReadSome(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it is only read
	var r io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
	}
	return io.ReadAll(io.LimitReader(r, most))
}

func readFile(path string) ([]byte, error) {
	data, err := ReadSome(path, mostText+1)
	if err != nil {
		return nil, err
	}
	if len(data) > mostText {
		return nil, fmt.Errorf("it has more than %d bytes of text; take a part of it", mostText)
	}
	return data, nil
}

// splitText cuts a plain text at its separators.
func splitText(text string) (documents []string) {
	for part := range strings.SplitSeq("\n"+text, "\n"+separator) {
		if part = strings.TrimSpace(part); part != "" {
			documents = append(documents, part)
		}
	}
	return documents
}

// splitLines reads a JSON object a line.
func splitLines(data []byte) (documents []string, err error) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		text, err := textOf(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		documents = append(documents, text)
	}
	return documents, nil
}

// splitList reads a list of JSON objects.
func splitList(data []byte) (documents []string, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("reading a list in JSON: %w", err)
	}
	for i, object := range list {
		text, err := textOf(object)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", i+1, err)
		}
		documents = append(documents, text)
	}
	return documents, nil
}

func textOf(line []byte) (string, error) {
	var object map[string]any
	if err := json.Unmarshal(line, &object); err != nil {
		return "", fmt.Errorf("reading JSON: %w", err)
	}
	var parts []string
	for _, name := range fields {
		if s, ok := object[name].(string); ok && s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("it has none of the fields %s", strings.Join(fields, ", "))
	}
	return strings.Join(parts, "\n"), nil
}
