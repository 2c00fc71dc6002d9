package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Keys hands on each key that is typed at once, by its name: Up, Enter and the others
// below, or the character itself. The terminal is as it was when restore is called. Without
// a terminal nobody types.
func Keys(in io.Reader) (keys <-chan string, restore func() error, err error) {
	f, ok := in.(*os.File)
	if !ok || !Is(f) {
		return nil, func() error { return nil }, nil
	}
	fd := int(f.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("reading keys from the terminal: %w", err)
	}
	typed := make(chan string, typedAhead)
	go read(f, typed) // until the process ends: nothing else can end a read
	return typed, func() error {
		if err := term.Restore(fd, before); err != nil {
			return fmt.Errorf("restoring the terminal: %w", err)
		}
		return nil
	}, nil
}

// typedAhead bounds the keys that wait; more are lost.
const typedAhead = 64

// Names of keys that are no characters.
const (
	Up          = "up"
	Down        = "down"
	Left        = "left"
	Right       = "right"
	PageUp      = "pgup"
	PageDown    = "pgdn"
	Home        = "home"
	End         = "end"
	Enter       = "enter"
	Tab         = "tab"
	Interrupted = "interrupt"
)

func read(from io.Reader, typed chan<- string) {
	defer close(typed)
	buffer := make([]byte, 256)
	for {
		n, err := from.Read(buffer)
		for _, key := range parse(buffer[:n]) {
			select {
			case typed <- key:
			default:
			}
		}
		if n == 0 || err != nil {
			return
		}
	}
}

// sequences are what terminals send for keys that are no characters.
var sequences = map[string]string{
	"\x1b[A": Up, "\x1b[B": Down, "\x1b[C": Right, "\x1b[D": Left,
	"\x1bOA": Up, "\x1bOB": Down, "\x1bOC": Right, "\x1bOD": Left,
	"\x1b[5~": PageUp, "\x1b[6~": PageDown,
	"\x1b[H": Home, "\x1bOH": Home, "\x1b[1~": Home, "\x1b[F": End, "\x1bOF": End, "\x1b[4~": End,
	"\r": Enter, "\n": Enter, "\t": Tab, "\x03": Interrupted,
}

// parse names the keys of what a terminal has sent at once. What no key sends is passed over.
func parse(sent []byte) (keys []string) {
	for len(sent) > 0 {
		n := length(sent)
		key, known := sequences[string(sent[:n])]
		if r, _ := utf8.DecodeRune(sent[:n]); !known && r >= ' ' && r != utf8.RuneError && r != 0x7f {
			key, known = string(r), true
		}
		if known {
			keys = append(keys, key)
		}
		sent = sent[n:]
	}
	return keys
}

const escape = 0x1b

// length returns how many bytes the first key has.
func length(sent []byte) int {
	switch {
	case sent[0] != escape:
		_, n := utf8.DecodeRune(sent)
		return n
	case len(sent) > 2 && sent[1] == 'O':
		return 3
	case len(sent) > 1 && sent[1] == '[':
		for i := 2; i < len(sent); i++ {
			if sent[i] >= 0x40 && sent[i] <= 0x7e { // the last byte of such a sequence
				return i + 1
			}
		}
		return len(sent)
	}
	return 1
}

// Size returns how many characters a terminal has in a line, and how many lines; what is usual
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
