package tokenizer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/request/tokenizer/words"
)

// rankTable is a tiktoken rank file: which bytes are which token. A token's rank
// is its id.
type rankTable struct {
	ids     map[string]uint32
	highest uint32
}

// looksLikeRanks says that a file begins as one of ranks does.
func looksLikeRanks(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	_, _, err := parseRank(line)
	return err == nil
}

// parseRank reads a line: a token in base64, a blank, its rank.
func parseRank(line []byte) (token []byte, rank uint32, err error) {
	text, number, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
	if !ok {
		return nil, 0, errors.New("it is not a token and its rank")
	}
	n, err := strconv.ParseUint(string(number), 10, 32)
	if err != nil {
		return nil, 0, fmt.Errorf("rank %.20q is no number", number)
	}
	token, err = base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(token) == 0 {
		return nil, 0, errors.New("the token is not in base64")
	}
	return token, uint32(n), nil
}

func parseRanks(data []byte) (*rankTable, error) {
	t := &rankTable{ids: make(map[string]uint32, bytes.Count(data, []byte("\n")))}
	seen := make(map[uint32]bool, bytes.Count(data, []byte("\n")))
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		token, rank, err := parseRank(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if len(token) > maxToken {
			return nil, fmt.Errorf("line %d: a token of %d bytes is longer than %d", number, len(token), maxToken)
		}
		if _, ok := t.ids[string(token)]; ok || seen[rank] {
			return nil, fmt.Errorf("line %d: token %q or rank %d was there before", number, token, rank)
		}
		t.ids[string(token)], seen[rank] = rank, true
		t.highest = max(t.highest, rank)
	}
	return t, checkIDs(t.highest, len(t.ids))
}

// openRanks makes a tokenizer of a rank file. pattern is the name of a known
// one, a regular expression, or empty: then the number of ranks tells.
func openRanks(data []byte, pattern string) (*Tokenizer, error) {
	table, err := parseRanks(data)
	if err != nil {
		return nil, fmt.Errorf("reading ranks: %w", err)
	}
	known := knownRanks[len(table.ids)]
	if pattern == "" {
		pattern = known.pattern
	}
	splitter, err := patternSplitter(pattern, len(table.ids))
	if err != nil {
		return nil, err
	}
	a, err := table.alphabet()
	if err != nil {
		return nil, err
	}
	t := newTokenizer()
	t.stages = []stage{isolate(splitter)}
	bpe := words.NewBPE(a, table.pairs(), table.ids)
	t.model, t.badBytes = bpe, (&badBytes{t, bpe, table}).encode
	for token, id := range table.ids {
		if err := t.addToken(token, id, []byte(token), nil); err != nil {
			return nil, err
		}
	}
	if known.special != nil {
		return t, t.addTokens(known.special(uint32(len(table.ids))), ownBytes)
	}
	return t, nil
}

func ownBytes(token string) (text, first []byte) { return []byte(token), []byte(token) }

// patternName matches what is meant as a pattern's name.
var patternName = regexp.MustCompile(`^[A-Za-z][\w.-]*$`)

// patternSplitter returns the splitter of a pattern by name or as an expression.
func patternSplitter(pattern string, ranks int) (words.Splitter, error) {
	if pattern == "" {
		return nil, fmt.Errorf("which pattern splits a text is not known for %d ranks: name it with --pattern, one of %q or a regular expression", ranks, words.Names())
	}
	if s, ok := words.Named(pattern); ok {
		return s, nil
	}
	if patternName.MatchString(pattern) { // an expression of a name would hardly split anything
		return nil, fmt.Errorf("no pattern is called %q; there are %q, or give a regular expression", pattern, words.Names())
	}
	return words.Compile(pattern, false)
}

func (t *rankTable) alphabet() (*words.ByteAlphabet, error) {
	a := &words.ByteAlphabet{Unk: words.NoPair}
	for b := range a.IDs {
		id, ok := t.ids[string([]byte{byte(b)})]
		if !ok {
			return nil, fmt.Errorf("byte %#02x has no rank", b)
		}
		a.IDs[b] = id
	}
	return a, nil
}

// pairs returns all that make a token.
func (t *rankTable) pairs() *words.Pairs {
	pairs := words.NewPairs(2 * len(t.ids))
	var at []int
	for token, id := range t.ids {
		for i := len(at) + 1; i < len(token); i++ {
			at = append(at, i)
		}
		pairs.AddSplits(token, id, id, at[:len(token)-1], func(part string) (uint32, bool) {
			id, ok := t.ids[part]
			return id, ok
		})
	}
	return pairs
}

// badBytes encodes texts that are not UTF-8 as tiktoken does: up to the last
// word before the first bad byte as usual, and all from there as one word.
//
// Source: CoreBPE.encode_bytes in tiktoken's lib.rs.
type badBytes struct {
	t     *Tokenizer
	bpe   *words.BPE
	table *rankTable
}

func (b *badBytes) encode(ids []uint32, text string) ([]uint32, error) {
	valid := validPrefix(text)
	stable, last := 0, 0 // of the text: where the last word begins; of ids: how many before it
	begun := len(ids)
	at := 0
	err := chain(b.t.stages, func(p piece) error {
		stable, last = at, len(ids)
		at += len(p.text)
		ids = b.bpe.Encode(ids, p.text)
		return nil
	})(piece{text[:valid], true})
	if err != nil {
		return nil, err
	}
	if valid == 0 {
		stable, last = 0, begun
	}
	for last > begun && last < len(ids) && b.isBlank(ids[last]) && b.isBlank(ids[last-1]) {
		last--
		stable -= len(b.t.pieces.bytes[ids[last]])
	}
	return b.bpe.Encode(ids[:last], text[stable:]), nil
}

// isBlank says that a token is white space of tiktoken's short list.
func (b *badBytes) isBlank(id uint32) bool {
	return len(bytes.Trim(b.t.pieces.bytes[id], " \n\t")) == 0
}

// validPrefix returns how many bytes of s are UTF-8.
func validPrefix(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}
