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

// Is says whether a person looks at w, or types into it.
func Is(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Keys calls quit when q is typed, or what interrupts; the terminal hands on
// each key at once until restore is called. Without a terminal nobody types.
func Keys(in io.Reader, quit func()) (restore func() error, err error) {
	f, ok := in.(*os.File)
	if !ok || !Is(f) {
		return func() error { return nil }, nil
	}
	fd := int(f.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("reading keys from the terminal: %w", err)
	}
	go awaitQuit(f, quit) // until the process ends: nothing else can end a read
	return func() error {
		if err := term.Restore(fd, before); err != nil {
			return fmt.Errorf("restoring the terminal: %w", err)
		}
		return nil
	}, nil
}

// interrupt is what Ctrl-C types in raw mode.
const interrupt = 3

func awaitQuit(keys io.Reader, quit func()) {
	key := make([]byte, 1)
	for {
		if n, err := keys.Read(key); n == 0 || err != nil {
			return
		}
		switch key[0] {
		case 'q', 'Q', interrupt:
			quit()
			return
		}
	}
}

// Page is text as a whole page of the terminal. In raw mode it needs returns, too.
func Page(text string) string {
	return clearScreen + strings.ReplaceAll(text, "\n", "\r\n")
}

const clearScreen = "\x1b[H\x1b[2J"

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
