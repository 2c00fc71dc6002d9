package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal says whether a person looks at w, or types into it.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress tells a person how things go: on a terminal only, so that pipes
// and logs stay quiet.
type progress struct {
	w    io.Writer // nil: quiet
	open bool      // a line that may be overwritten stands on the terminal
}

func (s stdio) progress() *progress {
	if !isTerminal(s.err) {
		return &progress{}
	}
	return &progress{w: s.err}
}

// Set replaces the line of progress.
func (p *progress) Set(format string, args ...any) {
	if p.w == nil {
		return
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K"+format, args...) // only for looking at
	p.open = true
}

// Clear removes the line of progress.
func (p *progress) Clear() {
	if p.open {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K") // only for looking at
		p.open = false
	}
}
