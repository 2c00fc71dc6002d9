package flagvalue

import (
	"fmt"
	"strings"
	"testing"
)

// Kubernetes' spelling means what it means there.
func TestBytesAsKubernetesHasThem(t *testing.T) {
	for text, want := range map[string]int64{"64Gi": 64 << 30, "512Mi": 512 << 20, "3Ki": 3 << 10, "2Ti": 2 << 40, "5M": 5e6, "7G": 7e9, "9k": 9e3, "1T": 1e12} {
		if got, err := Bytes("x", text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"64gi", "1.5Gi", "Gi", "1GiBB", "1m", "1K"} {
		if got, err := Bytes("x", text); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
}

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
		if n < 0 || n > MostBytes || !strings.ContainsAny(text, "KkMGTB") && fmt.Sprint(n) != text {
			t.Errorf("%q is %d", text, n)
		}
	})
}
