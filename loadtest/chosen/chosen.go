// Package chosen reads recordings for tables of chosen experts (pkg/policy/predict/bayes), and keeps
// tables and searches in files. A file has its name only when it is whole.
package chosen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/bo"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
	"github.com/switchyard/switchyard/pkg/serverless/batched"
)

// ErrKeys says that a recording has no keys.
var ErrKeys = errors.New("the recording has no keys of attention; make it with switchyard record --features")

// Read are the sequences of a recording of a model whose vocabulary has so many tokens.
func Read(path string, vocab int) (t *batched.Texts, err error) {
	r, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if !r.Keys {
		return nil, fmt.Errorf("%s: %w", path, ErrKeys)
	}
	t = &batched.Texts{Header: bayes.Header{Model: r.Model, Layers: r.Layers, Experts: r.Experts, TopK: r.TopK, Vocab: vocab}}
	first := r.Sequences()
	for i := 1; i < len(first); i++ {
		s, err := sequence(r, first[i-1], first[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		t.Sequences = append(t.Sequences, s)
	}
	return t, nil
}

// sequence are the rows from one to before another.
func sequence(r *recording.Recording, from, to int) (*bayes.Rows, error) {
	s := &bayes.Rows{Keys: make([][]uint32, len(r.Layers)), Experts: make([][]uint16, len(r.Layers))}
	at := map[int]uint32{} // tokens by position
	for i := from; i < to; i++ {
		row := r.Row(i)
		at[row.Position] = row.Token
		s.Tokens, s.Positions = append(s.Tokens, row.Token), append(s.Positions, uint32(row.Position))
	}
	ids := make([]int, r.TopK)
	for l := range r.Layers {
		for i := from; i < to; i++ {
			position, _ := r.Key(l, i)
			token, ok := at[position]
			if !ok {
				return nil, fmt.Errorf("row %d of layer %d has its key at position %d, which its sequence does not have", i, r.Layers[l], position)
			}
			s.Keys[l] = append(s.Keys[l], token)
			r.Chosen(l, i, ids)
			for _, e := range ids {
				s.Experts[l] = append(s.Experts[l], uint16(e))
			}
		}
	}
	return s, nil
}

// whole puts a file at a path, in place of what is there.
func whole(path string, data []byte) error {
	return wholefile.Write(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// WriteTable puts a table at a path, and says its digest.
func WriteTable(path string, t *bayes.Table) (digest string, err error) {
	data, err := t.Marshal()
	if err == nil {
		err = whole(path, data)
	}
	if err != nil {
		return "", fmt.Errorf("writing the table: %w", err)
	}
	return bayes.Digest(data), nil
}

// search is a file of a search: what it is of, and how far it is.
type search struct {
	Of    string // digest of the table and other settings, of which a search that goes on has the same
	State bo.State
}

// WriteSearch puts a search at a path.
func WriteSearch(path, of string, s *bo.State) error {
	data, err := json.Marshal(search{of, *s})
	if err == nil {
		err = whole(path, data)
	}
	if err != nil {
		return fmt.Errorf("writing the search: %w", err)
	}
	return nil
}

// ReadSearch is the search at a path; nil where there is no file. One of something else is refused.
func ReadSearch(path, of string) (*bo.State, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var s search
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the search in %s: %w; remove the file to begin anew", path, err)
	}
	if s.Of != of {
		return nil, fmt.Errorf("the search in %s is of another table, recording or settings; remove the file to begin anew", path)
	}
	return &s.State, nil
}
