package fleet

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Metrics reads what a process with --metrics-addr addr tells: values by name, with
// the labels as they are written.
func Metrics(ctx context.Context, addr string) (map[string]float64, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics: %w", err)
	}
	r, err := http.DefaultClient.Do(ask)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics: %w", err)
	}
	defer func() { _ = r.Body.Close() }()
	out := map[string]float64{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			out[name] = v
		}
	}
	return out, lines.Err()
}
