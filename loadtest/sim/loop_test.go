package sim

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/elastic"
)

// A scaler that leaves plans static gives what the static policy gives, and one
// that scales takes rows off the host that has most.
func TestLoop(t *testing.T) {
	m := tiny(2, 4)
	var same [][]uint32
	for range 20 {
		same = append(same, []uint32{60, 20, 10, 10})
	}
	w := loads(t, m, same...)
	s := settings(m, 2)
	static := run(t, w, s, policy("static"))
	for scaling, faster := range map[string]bool{"static": false, "moeless": true} {
		of := elastic.DefaultSettings()
		of.Scaling, of.RowSeconds, of.LoadSeconds, of.Worth = scaling, 2e-3, 1e-3, 0
		p, err := Loop(s, of)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, w, s, p)
		if r.Rows != static.Rows || (r.Mean() < static.Mean()-1e-9) != faster || r.Mean() > static.Mean()+1e-9 {
			t.Errorf("%s: mean %v s of %d rows, %d loads; static: %v s", scaling, r.Mean(), r.Rows, r.ColdStarts, static.Mean())
		}
	}
	if _, err := Loop(s, elastic.Settings{Scaling: "none"}); err == nil {
		t.Error("an unknown scaling is taken")
	}
}
