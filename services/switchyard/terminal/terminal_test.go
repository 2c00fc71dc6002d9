package terminal

import (
	"strings"
	"testing"
)

func TestQuitKeys(t *testing.T) {
	for keys, want := range map[string]bool{"xq": true, "Q": true, "\x03": true, "xyz": false, "": false} {
		got := false
		awaitQuit(strings.NewReader(keys), func() { got = true })
		if got != want {
			t.Errorf("%q quits: %v", keys, got)
		}
	}
}
