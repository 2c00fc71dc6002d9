package dlq

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/services/switchyard/terminal"
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
		l.Seq, l.Time.UTC().Format(time.DateTime), terminal.Clean(l.Reason), terminal.Clean(l.Subject), l.Deliveries, l.Bytes, terminal.Clean(l.Error))
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
	fmt.Fprintf(&b, "letter %d, given up %s by %s\n", c.Seq, c.Time.UTC().Format(time.RFC3339), terminal.Clean(c.Replica))
	fmt.Fprintf(&b, "reason: %s: %s\n", terminal.Clean(c.Reason), terminal.Clean(c.Error))
	fmt.Fprintf(&b, "message %d of %s on %s, stored %s, delivered %d times\n", c.Sequence, terminal.Clean(c.Stream), terminal.Clean(c.Subject), terminal.Clean(c.Stored), c.Deliveries)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		fmt.Fprintf(&b, "%s: %s\n", terminal.Clean(name), terminal.Clean(strings.Join(c.Headers[name], ", ")))
	}
	fmt.Fprintf(&b, "%d bytes", c.Bytes)
	if c.KeptBytes < c.Bytes {
		fmt.Fprintf(&b, ", the first %d of which were kept", c.KeptBytes)
	}
	if c.Body == nil {
		b.WriteString(", not a text: --json has them\n")
		return b.String()
	}
	fmt.Fprintf(&b, ":\n%s\n", terminal.Clean(*c.Body))
	return b.String()
}
