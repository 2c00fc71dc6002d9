// Package tokenize turns lines of texts into lines of token ids, and back.
package tokenize

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/request/jsontext"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// ErrLine is a line that cannot be used.
var ErrLine = errors.New("unusable line")

// maxLine bounds a line, in bytes.
const maxLine = 1 << 30

// line is what comes in: a text, bytes, or ids.
type line struct {
	Text  *string  `json:"text"`
	Bytes *[]byte  `json:"bytes_b64"`
	IDs   []uint32 `json:"ids"`
}

// Encode reads {"text"} or {"bytes_b64"} a line and writes {"ids"}. It ends at
// the first line that cannot be used. Special tokens in a text count with
// special; without, they are text.
func Encode(t *tokenizer.Tokenizer, special bool, in io.Reader, out io.Writer) error {
	return eachLine(in, out, func(l *line, answer []byte) ([]byte, error) {
		if l.IDs != nil || (l.Text == nil) == (l.Bytes == nil) {
			return nil, errors.New(`it must have either "text" or "bytes_b64"`)
		}
		text := ""
		if l.Text != nil {
			text = *l.Text
		} else {
			text = string(*l.Bytes)
		}
		ids, err := t.Encode(text, special)
		return appendIDs(answer, ids), err
	})
}

// Decode reads {"ids"} a line and writes {"text"} where it is UTF-8, else
// {"bytes_b64"}. Special tokens are written as their own text.
func Decode(t *tokenizer.Tokenizer, in io.Reader, out io.Writer) error {
	return eachLine(in, out, func(l *line, answer []byte) ([]byte, error) {
		if l.IDs == nil || l.Text != nil || l.Bytes != nil {
			return nil, errors.New(`it must have "ids" and nothing else`)
		}
		for i, id := range l.IDs {
			if !t.Has(id) {
				return nil, fmt.Errorf("ids[%d] is %d, which is no token", i, id)
			}
		}
		return appendText(answer, t.DecodeBytes(l.IDs, false))
	})
}

// eachLine answers one line with one line; empty ones are passed over.
func eachLine(in io.Reader, out io.Writer, answer func(l *line, to []byte) ([]byte, error)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	to := bufio.NewWriter(out)
	var reply []byte
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		l, err := readLine(lines.Bytes())
		if err == nil {
			reply, err = answer(l, reply[:0])
		}
		if err != nil {
			return errors.Join(to.Flush(), fmt.Errorf("line %d: %w: %w", number, ErrLine, err))
		}
		if _, err := to.Write(append(reply, '\n')); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	if err := to.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading lines: %w", err)
	}
	return nil
}

// readLine reads a line that has nothing but text in its strings.
func readLine(raw []byte) (*line, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New(`it is not UTF-8; send such texts as "bytes_b64"`)
	}
	if err := jsontext.CheckSurrogates(raw); err != nil {
		return nil, err
	}
	l := &line{}
	if err := json.Unmarshal(raw, l); err != nil {
		return nil, err
	}
	return l, checkKeys(raw)
}

// checkKeys finds a key that an object has twice: Go's decoder takes the later value, and
// takes keys for one that differ in case alone.
func checkKeys(object []byte) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		folded := strings.ToLower(strings.ToUpper(key))
		if seen[folded] {
			return fmt.Errorf("key %.40q is there twice", key)
		}
		seen[folded] = true
		if err := d.Decode(&json.RawMessage{}); err != nil {
			return err
		}
	}
	return nil
}

// appendIDs writes ids as JSON; none are an empty list.
func appendIDs(to []byte, ids []uint32) []byte {
	to = append(to, `{"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendUint(to, uint64(id), 10)
	}
	return append(to, "]}"...)
}

func appendText(to, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		to = append(to, `{"bytes_b64":"`...)
		to = base64.StdEncoding.AppendEncode(to, text)
		return append(to, `"}`...), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(string(text)); err != nil {
		return nil, fmt.Errorf("writing the text: %w", err)
	}
	to = append(to, `{"text":`...)
	to = append(to, bytes.TrimRight(b.Bytes(), "\n")...)
	return append(to, '}'), nil
}
