package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

func coldSettings(tb testing.TB, family string) ColdSettings {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), family)
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir(family))); err != nil {
		tb.Fatal(err)
	}
	threads := pool.New(1)
	tb.Cleanup(threads.Close)
	return ColdSettings{Dir: dir, Precision: model.AsStored, Pool: threads, Rounds: 1, Progress: func(string, ...any) {}}
}

// Each source is measured, of the bytes that an expert has.
func TestMeasureCold(t *testing.T) {
	for family, stored := range map[string]int64{"mixtral": 3 * 64 * 96 * 2, "qwen3_moe": 0} {
		t.Run(family, func(t *testing.T) {
			c, err := MeasureCold(t.Context(), coldSettings(t, family))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{fromCache, fromCache, fromStore, fromStore}
			if canDrop {
				want = slices.Insert(want, 2, fromDisk, fromDisk)
			}
			if len(c.Sources) != len(want) || stored > 0 && (c.Stored < stored || c.Stored > stored+1024) || c.Kept <= 0 {
				t.Fatalf("%+v", c)
			}
			text := c.String()
			for i, s := range c.Sources {
				if s.From != want[i] || !(s.Seconds > 0 && s.Rate > 0 && s.Share > 0) || (s.From == fromDisk) != (s.OfRead > 0) || (s.From == fromStore) != (s.OfGot > 0) || s.Again != (i%2 == 1) {
					t.Errorf("%+v", s)
				}
				if !strings.Contains(text, "/from="+strings.ReplaceAll(s.name(), " ", "-")+" 1 ") {
					t.Errorf("no line for benchstat of %s in %s", s.From, text)
				}
			}
		})
	}
}

func TestMeasureColdRefuses(t *testing.T) {
	s := coldSettings(t, "mixtral")
	if err := os.Remove(filepath.Join(s.Dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := MeasureCold(t.Context(), s); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a folder without config.json: %v", err)
	}
}
