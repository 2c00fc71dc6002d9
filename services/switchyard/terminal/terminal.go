// Package terminal knows what a terminal is: keys one by one, a page that is
// drawn again, a line of progress.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Is reports whether a person looks at w, or types into it.
func Is(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Progress tells a person how things go: on a terminal only, so that pipes
// and logs stay quiet.
type Progress struct {
	w    io.Writer // nil: quiet
	open bool      // a line that may be overwritten stands on the terminal
}

// NewProgress is quiet if nobody looks at w.
func NewProgress(w io.Writer) *Progress {
	if !Is(w) {
		return &Progress{}
	}
	return &Progress{w: w}
}

// Set replaces the line of progress.
func (p *Progress) Set(format string, args ...any) {
	if p.w == nil {
		return
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K"+format, args...) // only for looking at
	p.open = true
}

// Clear removes the line of progress.
func (p *Progress) Clear() {
	if p.open {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K") // only for looking at
		p.open = false
	}
}

// Clean makes what others wrote fit for one line: nothing in it moves the cursor,
// ends the line, or has what follows shown in another order.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, text)
}
