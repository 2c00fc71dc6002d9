package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a trace may have. The published hour has 19,366 requests, and none above
// 15,050 tokens.
const (
	mostLine     = 64 << 10 // Mooncake's name each block of the prompt
	mostRequests = 4 << 20
	mostTokens   = 1 << 20 // of a prompt, and of an answer
	mostSpan     = 31 * 24 * time.Hour
)

// columns are what each line has a field of.
var columns = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}

// layouts are how the published traces write times: those of 2023, and of 2024.
var layouts = []string{"2006-01-02 15:04:05.9999999", "2006-01-02 15:04:05.9999999Z07:00"}

// parser reads a line that is a request.
type parser func(line string) (time.Time, Request, error)

// Read reads a trace: CSV with a header as Azure publishes it, or, where the first line
// begins with a brace, lines of JSON as Mooncake's. Errors say in which line they are. A
// line that lacks a field, an empty line between two requests, and a time before that of
// the line before it are errors; a long pause between two requests is none.
func Read(from io.Reader) ([]Request, error) {
	lines, err := open(from)
	if err != nil {
		return nil, err
	}
	if isHours(lines.Text()) {
		return nil, wrong(1, ErrHours)
	}
	b, err := begin(lines.Text())
	if err != nil {
		return nil, wrong(1, err)
	}
	if err := rest(lines, b.add); err != nil {
		return nil, err
	}
	if len(b.requests) == 0 {
		return nil, wrong(1, errors.New("no request follows the header; name another trace"))
	}
	return b.requests, nil
}

// begin takes the first line: a header, or a request as JSON.
func begin(first string) (*body, error) {
	if strings.HasPrefix(first, "{") {
		b := &body{parse: mooncake}
		return b, b.add(first)
	}
	at, err := header(first, columns)
	if err != nil {
		return nil, err
	}
	return &body{parse: func(text string) (time.Time, Request, error) { return line(strings.Split(text, ","), at) }}, nil
}

// open has the first line.
func open(from io.Reader) (*bufio.Scanner, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4<<10), mostLine)
	if !lines.Scan() {
		return nil, wrong(1, cmp.Or(lines.Err(), errors.New("the trace is empty")))
	}
	return lines, nil
}

// rest hands over the lines behind the first.
func rest(lines *bufio.Scanner, add func(text string) error) error {
	n, empty := 1, 0
	for ; lines.Scan(); n++ {
		switch {
		case strings.TrimSpace(lines.Text()) == "":
			empty = cmp.Or(empty, n+1)
			continue
		case empty > 0:
			return wrong(empty, errors.New("it is empty, and others follow; leave it out"))
		}
		if err := add(lines.Text()); err != nil {
			return wrong(n+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return wrong(n+1, err)
	}
	return nil
}

func wrong(line int, err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("the line has more than %d bytes", mostLine)
	}
	return fmt.Errorf("line %d of the trace: %w", line, err)
}

// names are the columns that a header has.
func names(line string) []string {
	names := strings.Split(strings.TrimPrefix(line, "\ufeff"), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

// header is where each column is.
func header(line string, columns []string) (at []int, err error) {
	names := names(line)
	for _, c := range columns {
		i := slices.Index(names, c)
		if i < 0 {
			return nil, fmt.Errorf("there is no column %s; a trace has %s", c, strings.Join(columns, ", "))
		}
		at = append(at, i)
	}
	return at, nil
}

// body is what has been read of a trace.
type body struct {
	parse       parser
	first, last time.Time
	requests    []Request
}

func (b *body) add(text string) error {
	if len(b.requests) == mostRequests {
		return fmt.Errorf("a trace has at most %d requests", mostRequests)
	}
	t, r, err := b.parse(text)
	if err != nil {
		return err
	}
	if len(b.requests) == 0 {
		b.first, b.last = t, t
	}
	switch {
	case r.Context == 0:
		return errors.New("its prompt has no tokens; a request has at least one: leave the line out")
	case r.Generated == 0:
		return errors.New("its answer has no tokens; a request has at least one: leave the line out")
	case t.Before(b.last):
		return fmt.Errorf("it comes %v before the line above it; sort the lines by time", b.last.Sub(t))
	case t.Sub(b.first) > mostSpan:
		return fmt.Errorf("it comes %v behind the first request; a trace may span %v: cut it", t.Sub(b.first), mostSpan)
	}
	r.At, b.last = t.Sub(b.first), t
	b.requests = append(b.requests, r)
	return nil
}

func line(fields []string, at []int) (t time.Time, r Request, err error) {
	for i, c := range columns {
		if at[i] >= len(fields) {
			return t, r, fmt.Errorf("there is no %s; it has %d fields", c, len(fields))
		}
	}
	if t, err = stamp(strings.TrimSpace(fields[at[0]])); err != nil {
		return t, r, err
	}
	if r.Context, err = tokens(columns[1], fields[at[1]]); err != nil {
		return t, r, err
	}
	r.Generated, err = tokens(columns[2], fields[at[2]])
	return t, r, err
}

func stamp(text string) (t time.Time, err error) {
	for _, l := range layouts {
		if t, err = time.Parse(l, text); err == nil {
			return t, nil
		}
	}
	return t, fmt.Errorf("TIMESTAMP is %q; it must be like 2023-11-16 18:15:46.6805900", text)
}

func tokens(column, text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > mostTokens {
		return 0, fmt.Errorf("%s is %q; it must be a whole number from 0 to %d", column, text, mostTokens)
	}
	return n, nil
}
