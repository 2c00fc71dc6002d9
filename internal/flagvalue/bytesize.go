package flagvalue

import (
	"fmt"
	"strings"
)

// byteUnits are the suffixes of byte counts, longest first. Ki to Ti and k to T are Kubernetes' spelling.
var byteUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"", 1},
}

// MostBytes is more than any machine has, and sums of it are calculated with.
const MostBytes = 1024 << 40

// Bytes reads a count of bytes from 0 to Most, such as 64MiB. The error names the flag.
func Bytes(flag, text string) (int64, error) {
	n, err := readBytes(flag, text)
	if err == nil && n > MostBytes {
		err = fmt.Errorf("--%s is %s; it must be at most 1024TiB", flag, text)
	}
	return n, err
}

func readBytes(flag, text string) (int64, error) {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		var n int64
		if !ok {
			continue
		}
		if used, err := fmt.Sscanf(digits+" ", "%d ", &n); err != nil || used != 1 || fmt.Sprint(n) != digits || n < 0 || n > 1<<62/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("--%s is %q; it must be a number of bytes such as 67108864, 64MiB, 64Mi or 4GB", flag, text)
}
