package upcycle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A dense model's config becomes one with experts that has all else as it was, or an
// error.
func FuzzReadConfig(f *testing.F) {
	for _, name := range []string{"gpt2", "bert", "bert2bert"} {
		data, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"model_type": "encoder-decoder", "encoder": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, moe, _, err := readConfig(data, usual)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(data, &before) != nil || json.Unmarshal(moe, &after) != nil {
			t.Fatalf("%s became %s", data, moe)
		}
		if object(after).modelType() != d.moeType {
			t.Errorf("model_type %q, want %q", object(after).modelType(), d.moeType)
		}
		for key := range before {
			if _, kept := after[key]; !kept {
				t.Errorf("%q is gone", key)
			}
		}
	})
}
