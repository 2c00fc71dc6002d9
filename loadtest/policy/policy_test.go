package policy

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/place"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

const layer = `{"layer": 3, "experts": [{"id": 1, "load": 45, "bytes": 1e1}, {"id": 0, "load": 10.0, "bytes": 10}, {"id": 7, "load": 10, "bytes": 10}],
	"settings": {"cv_threshold": 0.2, "memory_cap_bytes": 20, "max_replicas": 0}}`

const state = `{"layer": 3, "experts": [{"id": 1, "replicas": 2, "load_each": 15, "bytes": 10}, {"id": 0, "replicas": 1, "load_each": 10, "bytes": 10}],
	"hosts": [{"id": "b", "capacity_bytes": 20}, {"id": "a", "capacity_bytes": 10}], "previous": [{"expert": 1, "host": "b"}, {"expert": 0, "host": "gone"}]}`

func encoded(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestScale(t *testing.T) {
	got, err := Scale("moeless", strings.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"experts":[{"id":0,"replicas":1,"load_each":10},{"id":1,"replicas":3,"load_each":15},{"id":7,"replicas":1,"load_each":10}],` +
		`"cv":0.1884222879063983,"added_bytes":20,"reason":"2 replicas added: CV from 0.7615 to 0.1884, threshold 0.2"}`
	if encoded(t, got) != want {
		t.Errorf("got %s, want %s", encoded(t, got), want)
	}
}

func TestPlace(t *testing.T) {
	got, err := Place("moeless", strings.NewReader(state))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"placement":[{"expert":0,"host":"b","warm":false},{"expert":1,"host":"a","warm":false},{"expert":1,"host":"b","warm":true}],` +
		`"hosts":[{"id":"a","load":15,"bytes":10},{"id":"b","load":25,"bytes":20}]}`
	if encoded(t, got) != want {
		t.Errorf("got %s, want %s", encoded(t, got), want)
	}
	small := strings.Replace(state, `"capacity_bytes": 10`, `"capacity_bytes": 9`, 1)
	if _, err := Place("moeless", strings.NewReader(small)); !errors.Is(err, place.ErrNoRoom) || errors.Is(err, ErrState) {
		t.Errorf("got %v", err)
	}
	empty := `{"layer": 0, "experts": [], "hosts": []}`
	if got, err := Place("eplb", strings.NewReader(empty)); err != nil || encoded(t, got) != `{"placement":[],"hosts":[]}` {
		t.Errorf("got %s, %v", encoded(t, got), err)
	}
}

func TestBadStates(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"negative load", `"load": 45`, `"load": -45`, "experts[0].load is -45"},
		{"NaN", `"load": 45`, `"load": NaN`, "no JSON"},
		{"endless load", `"load": 45`, `"load": 1e999`, "experts[0].load is 1e999"},
		{"load beyond counting", `"load": 45`, `"load": 1e300`, "expert 1 has load 1e+300"},
		{"no load", `"load": 45, `, ``, "experts[0].load is missing"},
		{"null", `"load": 45`, `"load": null`, "experts[0].load must be a number"},
		{"text for a number", `"load": 45`, `"load": "45"`, "experts[0].load must be a number"},
		{"unknown field", `"load": 45`, `"load": 45, "lode": 1`, "experts[0].lode is unknown; fields here are id, load, bytes"},
		{"other case", `"settings"`, `"Settings"`, "Settings is unknown"},
		{"field twice", `"load": 45`, `"load": 45, "load": 1`, "experts[0].load is there twice"},
		{"id twice", `"id": 7`, `"id": 1`, "expert 1 is named twice"},
		{"negative id", `"id": 7`, `"id": -7`, "experts[2].id is -7"},
		{"half an id", `"id": 7`, `"id": 7.5`, "experts[2].id is 7.5; it must be a whole number"},
		{"negative bytes", `"bytes": 1e1`, `"bytes": -1`, "experts[0].bytes is -1"},
		{"bytes beyond counting", `"bytes": 1e1`, `"bytes": 1e17`, "experts[0].bytes is 1e+17"},
		{"negative threshold", `"cv_threshold": 0.2`, `"cv_threshold": -0.2`, "settings.cv_threshold is -0.2"},
		{"no cap", `"memory_cap_bytes": 20, `, ``, "settings.memory_cap_bytes is missing"},
		{"negative replicas", `"max_replicas": 0`, `"max_replicas": -1`, "settings.max_replicas is -1"},
		{"no settings", `"settings"`, `"layers"`, "layers is unknown"},
		{"no experts", `"experts"`, `"exports"`, "exports is unknown"},
		{"settings are a list", `"settings": {`, `"settings": 3, "more": {`, "more is unknown"},
		{"no layer", `"layer": 3, `, ``, "layer is missing"},
		{"more behind it", `{"layer"`, `{} {"layer"`, "more follows"},
		{"nothing", layer, ``, "ends too early"},
		{"half of it", `"max_replicas": 0}}`, ``, "ends too early"},
		{"a list", layer, `[]`, "the state must be a JSON object"},
		{"experts of numbers", layer, `{"layer": 1, "experts": [1], "settings": {}}`, "experts[0] must be a JSON object"},
		{"experts no list", layer, `{"layer": 1, "experts": {}, "settings": {}}`, "experts must be a list"},
		{"empty", layer, `{"layer": 1, "experts": [], "settings": {"cv_threshold": 0, "memory_cap_bytes": 0}}`, "no experts"},
		{"deep", layer, strings.Repeat("[", 1<<20), "within each other"},
		{"not UTF-8", `"layer"`, "\"\xff\"", "not UTF-8"},
		{"comma", `"max_replicas": 0}`, `"max_replicas": 0,}`, "no JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Scale("moeless", strings.NewReader(strings.Replace(layer, tt.old, tt.new, 1)))
			if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBadPlacements(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"unknown expert", `"expert": 0`, `"expert": 9`, `expert 9 on host "gone", and there is no such expert`},
		{"host twice", `"id": "a"`, `"id": "b"`, `host "b" is named twice`},
		{"nameless host", `"id": "a"`, `"id": ""`, "a host has no id"},
		{"host of a number", `"id": "a"`, `"id": 5`, "hosts[1].id must be a string"},
		{"no host", `"host": "gone"`, `"hots": "gone"`, "previous[1].hots is unknown"},
		{"expert twice", `"id": 0`, `"id": 1`, "expert 1 is named twice"},
		{"half a replica", `"replicas": 2`, `"replicas": 1.5`, "experts[0].replicas is 1.5"},
		{"too many", `"replicas": 2`, `"replicas": 1e9`, "replicas is 1000000000"},
		{"negative capacity", `"capacity_bytes": 10`, `"capacity_bytes": -10`, "hosts[1].capacity_bytes is -10"},
		{"negative load", `"load_each": 15`, `"load_each": -15`, "experts[0].load_each is -15"},
		{"no replicas", `"replicas": 2, `, ``, "experts[0].replicas is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Place("moeless", strings.NewReader(strings.Replace(state, tt.old, tt.new, 1)))
			if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestUnknownPolicy(t *testing.T) {
	_, scaling := Scale("best", strings.NewReader(layer))
	_, placing := Place("best", strings.NewReader(state))
	if !errors.Is(scaling, registry.ErrUnknown) || !errors.Is(placing, registry.ErrUnknown) {
		t.Errorf("got %v, %v", scaling, placing)
	}
}

// Whatever comes in is a decision that JSON can say, or a refusal.
func FuzzScale(f *testing.F) {
	f.Add(layer)
	f.Add(`{"layer":0,"experts":[{"id":0,"load":1e-320,"bytes":0}],"settings":{"cv_threshold":0,"memory_cap_bytes":9e15}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range registry.Names(registry.Scaling) {
			d, err := Scale(name, strings.NewReader(text))
			if err != nil {
				if !errors.Is(err, ErrState) {
					t.Fatal(err)
				}
				return
			}
			encoded(t, d)
			for _, e := range d.Experts {
				if e.Replicas < 1 || !(e.LoadEach >= 0) || math.IsInf(e.LoadEach, 0) {
					t.Fatalf("%+v", e)
				}
			}
		}
	})
}

// Whatever comes in is a placement that JSON can say, a refusal, or no room.
func FuzzPlace(f *testing.F) {
	f.Add(state)
	f.Add(`{"layer":0,"experts":[{"id":0,"replicas":3,"load_each":0,"bytes":0}],"hosts":[{"id":"\u0000","capacity_bytes":0}],"previous":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range registry.Names(registry.Placing) {
			p, err := Place(name, strings.NewReader(text))
			if err != nil {
				if !errors.Is(err, ErrState) && !errors.Is(err, place.ErrNoRoom) {
					t.Fatal(err)
				}
				return
			}
			encoded(t, p)
		}
	})
}
