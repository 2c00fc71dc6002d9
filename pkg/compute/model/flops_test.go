package model

import "testing"

// Another layer costs all rows what it costs one; the last one costs a row, and the others what they leave to it.
func TestPromptFLOPs(t *testing.T) {
	spec := func(name string) *Spec {
		m, err := Synthetic(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		return &m.Spec
	}
	for _, tc := range []struct {
		name      string
		projected float64 // weights of a layer's queries, keys and values
	}{
		{"mixtral-8x7b", 4096 * 6144}, {"qwen3-30b-a3b", 2048 * 5120}, {"deepseek-v2-lite", 2048 * (16*192 + 576)},
	} {
		const rows = 512
		one, two := spec(tc.name+":1"), spec(tc.name+":2")
		active := float64(one.Parameters().ActiveInLayers)
		if got, want := two.PromptFLOPs(rows)-one.PromptFLOPs(rows), rows*(2*active+one.ScoreFLOPs(rows/2)); got != want {
			t.Errorf("%s: another layer takes %v, want %v", tc.name, got, want)
		}
		head := 2 * float64(one.Vocab) * float64(one.Hidden)
		if got, want := one.PromptFLOPs(rows), 2*(rows-1)*tc.projected+2*active+one.ScoreFLOPs(rows)+head; got != want {
			t.Errorf("%s: one layer takes %v, want %v", tc.name, got, want)
		}
	}
}
