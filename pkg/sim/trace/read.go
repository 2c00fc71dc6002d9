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
// begins with a brace, lines of JSON as Mooncake's. Its requests come in the order of
// their times, whatever the file's; errors say in which line they are.
func Read(from io.Reader) ([]Request, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 4<<10), mostLine)
	if !lines.Scan() {
		return nil, wrong(1, orElse(lines.Err(), errors.New("the trace is empty")))
	}
	var b body
	if strings.HasPrefix(lines.Text(), "{") {
		b.parse = mooncake
		if err := b.add(lines.Text()); err != nil {
			return nil, wrong(1, err)
		}
	} else {
		at, err := header(lines.Text())
		if err != nil {
			return nil, wrong(1, err)
		}
		b.parse = func(text string) (time.Time, Request, error) { return line(strings.Split(text, ","), at) }
	}
	if err := b.read(lines); err != nil {
		return nil, err
	}
	return inOrder(b.stamps, b.requests)
}

func wrong(line int, err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("the line has more than %d bytes", mostLine)
	}
	return fmt.Errorf("line %d of the trace: %w", line, err)
}

func orElse(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// header is where each column is.
func header(line string) (at []int, err error) {
	names := strings.Split(strings.TrimPrefix(line, "\ufeff"), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
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
	parse    parser
	stamps   []time.Time
	requests []Request
}

// read reads all lines behind the first.
func (b *body) read(lines *bufio.Scanner) error {
	n := 1
	for ; lines.Scan(); n++ {
		if err := b.add(lines.Text()); err != nil {
			return wrong(n+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		return wrong(n+1, err)
	}
	if len(b.requests) == 0 {
		return wrong(n, errors.New("no request follows the header"))
	}
	return nil
}

func (b *body) add(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if len(b.requests) == mostRequests {
		return fmt.Errorf("a trace has at most %d requests", mostRequests)
	}
	t, r, err := b.parse(text)
	if err != nil {
		return err
	}
	if r.Context == 0 {
		return errors.New("its prompt has no tokens; a request has at least one: leave the line out")
	}
	b.stamps, b.requests = append(b.stamps, t), append(b.requests, r)
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

// inOrder counts times from the first request.
func inOrder(stamps []time.Time, requests []Request) ([]Request, error) {
	first, last := slices.MinFunc(stamps, time.Time.Compare), slices.MaxFunc(stamps, time.Time.Compare)
	if last.Sub(first) > mostSpan {
		return nil, fmt.Errorf("the trace spans %v, from %v to %v; it may span %v", last.Sub(first), first, last, mostSpan)
	}
	for i := range requests {
		requests[i].At = stamps[i].Sub(first)
	}
	slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return requests, nil
}
