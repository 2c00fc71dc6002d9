package terminal

import (
	"fmt"
	"io"
	"os"
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

// length is how many bytes the first key has.
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
