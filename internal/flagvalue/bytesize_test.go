package flagvalue

import (
	"fmt"
	"strings"
	"testing"
)

// A count of bytes is not below 0, and the number itself when nothing is behind it.
func FuzzBytes(f *testing.F) {
	for _, s := range []string{"67108864", "64MiB", "4GB", "9223372036854775807TiB", "-1", "1e3", "0x10", " 1", "1 B", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Bytes("x", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "--x is ") {
				t.Errorf("%v does not name the flag", err)
			}
			return
		}
		if n < 0 || n > MostBytes || !strings.ContainsAny(text, "KMGTB") && fmt.Sprint(n) != text {
			t.Errorf("%q is %d", text, n)
		}
	})
}
