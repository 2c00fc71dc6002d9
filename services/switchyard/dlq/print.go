package dlq

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Table writes letters for people.
type Table struct{ w *tabwriter.Writer }

// NewTable writes to w what is added, at Flush.
func NewTable(w io.Writer) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	_, _ = fmt.Fprintln(t.w, "SEQ\tGIVEN UP\tREASON\tSUBJECT\tDELIVERIES\tBYTES\tERROR") // Flush has the error
	return t
}

// Add adds a line.
func (t *Table) Add(l *Letter) {
	_, _ = fmt.Fprintf(t.w, "%d\t%s\t%s\t%s\t%d\t%d\t%s\n",
		l.Seq, l.Time.UTC().Format(time.DateTime), clean(l.Reason), clean(l.Subject), l.Deliveries, l.Bytes, clean(l.Error))
}

// Flush writes the table.
func (t *Table) Flush() error {
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("writing what there is: %w", err)
	}
	return nil
}

// Text is a letter with its headers and its body for people.
func (c Content) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "letter %d, given up %s by %s\n", c.Seq, c.Time.UTC().Format(time.RFC3339), clean(c.Replica))
	fmt.Fprintf(&b, "reason: %s: %s\n", clean(c.Reason), clean(c.Error))
	fmt.Fprintf(&b, "message %d of %s on %s, stored %s, delivered %d times\n", c.Sequence, clean(c.Stream), clean(c.Subject), clean(c.Stored), c.Deliveries)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		fmt.Fprintf(&b, "%s: %s\n", clean(name), clean(strings.Join(c.Headers[name], ", ")))
	}
	fmt.Fprintf(&b, "%d bytes", c.Bytes)
	if c.KeptBytes < c.Bytes {
		fmt.Fprintf(&b, ", the first %d of which were kept", c.KeptBytes)
	}
	if c.Body == nil {
		b.WriteString(", not a text: --json has them\n")
		return b.String()
	}
	fmt.Fprintf(&b, ":\n%s\n", clean(*c.Body))
	return b.String()
}

// clean makes what others wrote fit for a terminal's line.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}
