package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// layouts are Go's forms of the directives of strftime in the C locale.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'z': "-0700", 'Z': "MST",
	'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM",
}

// strftime is C's, with glibc's - for numbers without leading zeros.
func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		short := format[i] == '-' && i+1 < len(format)
		if short {
			i++
		}
		s, err := directive(t, format[i])
		if err != nil {
			return "", err
		}
		if short {
			s = strings.TrimLeft(s[:len(s)-1], "0 ") + s[len(s)-1:]
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func directive(t time.Time, c byte) (string, error) {
	switch c {
	case '%':
		return "%", nil
	case 'n':
		return "\n", nil
	case 't':
		return "\t", nil
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), nil
	case 's':
		return strconv.FormatInt(t.Unix(), 10), nil
	case 'w':
		return strconv.Itoa(int(t.Weekday())), nil
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), nil
	}
	layout, ok := layouts[c]
	if !ok {
		return "", fmt.Errorf("strftime_now: unknown directive %%%c", c)
	}
	return t.Format(layout), nil
}
