package transcript

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Event is one line of a transcript.
type Event struct {
	Name string
	Args []string

	options map[string]string
	used    map[string]bool
	at      string
}

// parse reads name arg… key=value….
func parse(line string) (*Event, error) {
	e := &Event{options: map[string]string{}, used: map[string]bool{}}
	for rest := strings.TrimSpace(line); rest != ""; {
		key, value, left, err := field(rest)
		if err != nil {
			return nil, err
		}
		rest = strings.TrimLeft(left, " ")
		switch {
		case key != "":
			e.options[key] = value
		case e.Name == "":
			e.Name = value
		default:
			e.Args = append(e.Args, value)
		}
	}
	if e.Name == "" {
		return nil, fmt.Errorf("%q names no event", line)
	}
	return e, nil
}

// field takes the next word off, which may be quoted, and its key.
func field(s string) (key, value, rest string, err error) {
	if i := strings.IndexAny(s, `= "`); i > 0 && s[i] == '=' {
		key, s = s[:i], s[i+1:]
	}
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, " ")
		return key, value, rest, nil
	}
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", "", fmt.Errorf("a quote does not end in %s", s)
	}
	value, err = strconv.Unquote(quoted)
	return key, value, s[len(quoted):], err
}

// Arg returns the i-th argument; there must be that many.
func (e *Event) Arg(t testing.TB, i int) string {
	t.Helper()
	if i >= len(e.Args) {
		e.Fatalf(t, "there is no argument %d", i+1)
	}
	return e.Args[i]
}

// Has reports whether there is an option of this name.
func (e *Event) Has(key string) bool {
	_, ok := e.options[key]
	return ok
}

// Text returns an option's value, or what is usual where there is none.
func (e *Event) Text(key, usual string) string {
	e.used[key] = true
	if v, ok := e.options[key]; ok {
		return v
	}
	return usual
}

// Int is Text as a number.
func (e *Event) Int(t testing.TB, key string, usual int) int {
	t.Helper()
	n, err := strconv.Atoi(e.Text(key, strconv.Itoa(usual)))
	e.check(t, key, err)
	return n
}

// Float is Text as a number.
func (e *Event) Float(t testing.TB, key string, usual float64) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(e.Text(key, fmt.Sprint(usual)), 64)
	e.check(t, key, err)
	return f
}

// Duration is Text as a time span.
func (e *Event) Duration(t testing.TB, key string, usual time.Duration) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(e.Text(key, usual.String()))
	e.check(t, key, err)
	return d
}

func (e *Event) check(t testing.TB, key string, err error) {
	t.Helper()
	if err != nil {
		e.Fatalf(t, "%s: %v", key, err)
	}
}

// Fatalf ends a test whose transcript says what cannot be, with its line.
func (e *Event) Fatalf(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Fatalf("%s: %s: %s", e.at, e.Name, fmt.Sprintf(format, args...))
}

// unused returns the options that the machine did not look at.
func (e *Event) unused() string {
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(e.options)), func(k string) bool { return e.used[k] })
	return strings.Join(left, ", ")
}
