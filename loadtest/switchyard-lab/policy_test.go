package main

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

func TestPolicy(t *testing.T) {
	const (
		layer = `{"layer": 0, "experts": [{"id": 0, "load": 45, "bytes": 1}, {"id": 1, "load": 10, "bytes": 1}], "settings": {"cv_threshold": 0.2, "memory_cap_bytes": 2}}`
		state = `{"layer": 0, "experts": [{"id": 4, "replicas": 1, "load_each": 1, "bytes": 7}], "hosts": [{"id": "a", "capacity_bytes": 5}]}`
	)
	tests := []struct {
		name  string
		args  []string
		stdin string
		code  int
		want  string // on stdout for code 0, else on stderr
	}{
		{"scale", []string{"scale", "--name", "moeless"}, layer, 0, `{"experts":[{"id":0,"replicas":3,"load_each":15},{"id":1,"replicas":1,"load_each":10}],"cv":0.157`},
		{"eplb", []string{"scale", "--name", "eplb"}, layer, 0, `"replicas":3`},
		{"reactive", []string{"scale", "--name", "reactive"}, layer, 0, `"replicas":2`},
		{"static", []string{"scale", "--name", "static"}, layer, 0, `"added_bytes":0`},
		{"place", []string{"place", "--name", "round-robin"}, strings.Replace(state, "5", "7", 1), 0, `{"placement":[{"expert":4,"host":"a","warm":false}],"hosts":[{"id":"a","load":1,"bytes":7}]}`},
		{"no room", []string{"place", "--name", "moeless"}, state, 1, `placing expert 4 of 7 bytes: no host has room: host "a" has most left, 5 of 5 bytes`},
		{"unusable state", []string{"scale", "--name", "moeless"}, strings.Replace(layer, "45", "-1", 1), 2, "experts[0].load is -1"},
		{"nothing on stdin", []string{"place", "--name", "eplb"}, "", 2, "ends too early"},
		{"prefetch", []string{"prefetch", "--name", "fmoe"}, `{"probabilities": [0.1, 0.5, 0.1, 0.3], "score": 0.15, "top_k": 1}`, 0, `{"experts":[1,3,0]}`},
		{"unlike", []string{"prefetch", "--name", "fmoe"}, `{"probabilities": [0.5, 0.5], "score": -1, "top_k": 0}`, 0, `{"experts":[0,1]}`},
		{"no experts", []string{"prefetch", "--name", "fmoe"}, `{"probabilities": [], "score": 1, "top_k": 0}`, 2, "probabilities is empty"},
		{"no probability", []string{"prefetch", "--name", "fmoe"}, `{"probabilities": [0.5, -0.5], "score": 1, "top_k": 0}`, 2, "probabilities[1] must be a number from 0 to 1"},
		{"no cosine", []string{"prefetch", "--name", "fmoe"}, `{"probabilities": [1], "score": 1.5, "top_k": 0}`, 2, "score is 1.5"},
		{"no number", []string{"prefetch", "--name", "fmoe"}, `{"probabilities": [1], "score": "1", "top_k": 0}`, 2, "score must be a number"},
		{"more than there are", []string{"prefetch", "--name", "fmoe"}, `{"probabilities": [1], "score": 1, "top_k": 2}`, 2, "top_k is 2; there are 1 experts"},
		{"split", []string{"split", "--name", "brownout"}, `{"way": 2, "threshold_millionths": 500000, "counts": [3, 1, 1, 1]}`, 0,
			`{"own":[0],"lone":[1],"united":[{"group":1,"experts":[2,3]}],"accesses":3}`},
		{"no way", []string{"split", "--name", "brownout"}, `{"threshold_millionths": 500000, "counts": [3, 1, 1, 1]}`, 2, "way is missing"},
		{"no prefetching", []string{"prefetch", "--name", "lru"}, "", 2, "--name"},
		{"no name", []string{"scale"}, layer, 2, "--name"},
		{"unknown name", []string{"scale", "--name", "oracle"}, layer, 2, "policy oracle cannot be chosen here; there are: static, eplb, reactive, moeless"},
		{"the other's name", []string{"place", "--name", "static"}, state, 2, "policy static cannot be chosen here; there are: eplb, moeless, round-robin"},
	}
	for _, tt := range testkit.Some(tests) {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(tt.stdin, append([]string{"policy"}, tt.args...)...)
			text := got.Err
			if tt.code == 0 {
				text = got.Out
			}
			if got.Code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("got %+v, want code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}
