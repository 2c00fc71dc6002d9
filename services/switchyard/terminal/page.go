package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Size is how many characters a terminal has in a line, and how many lines; what is usual
// where it does not say.
func Size(w any) (width, height int) {
	const usualWidth, usualHeight = 80, 24
	if f, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return usualWidth, usualHeight
}

// Page is the whole terminal, which is drawn again and again. What was there before comes
// back when it is closed.
type Page struct{ w io.Writer }

const (
	openPage  = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another page, no cursor, lines do not wrap
	closePage = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	top       = "\x1b[H"
	restOfRow = "\x1b[K"
	loud      = "\x1b[7m"
	plain     = "\x1b[0m"
)

// OpenPage begins one.
func OpenPage(w io.Writer) (*Page, error) {
	p := &Page{w}
	return p, p.write(openPage)
}

// Draw replaces what is shown. Loud lines are shown in reverse. Each line is ended by hand:
// where keys come one by one, a terminal does not.
func (p *Page) Draw(lines []string, isLoud func(i int) bool) error {
	var b strings.Builder
	b.WriteString(top)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if isLoud(i) {
			line = loud + line + plain
		}
		b.WriteString(restOfRow + line) // a line may fill the row: what is behind it would be its end
	}
	return p.write(b.String())
}

// Close shows again what was there before.
func (p *Page) Close() error { return p.write(closePage) }

func (p *Page) write(text string) error {
	if _, err := io.WriteString(p.w, text); err != nil {
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	return nil
}
