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
	m, err := model.Open(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
	})
	return ColdSettings{Model: m, Dir: dir, Pool: threads, Rounds: 1, Progress: func(string, ...any) {}}
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

// A model whose files of weights are gone, or that has no experts, cannot be measured.
func TestCheckCold(t *testing.T) {
	s := coldSettings(t, "mixtral")
	if err := CheckCold(s.Model, s.Dir); err != nil {
		t.Error(err)
	}
	if err := CheckCold(s.Model, t.TempDir()); err == nil || !strings.Contains(err.Error(), "no plain file of weights") {
		t.Errorf("a folder without weights: %v", err)
	}
	for i := range s.Model.Spec.Layer {
		s.Model.Spec.Layer[i].MoE = false
	}
	if err := CheckCold(s.Model, s.Dir); err == nil || !strings.Contains(err.Error(), "has no experts") {
		t.Errorf("a model without experts: %v", err)
	}
}
