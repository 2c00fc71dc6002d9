package model

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A matrix of which a part is missing is refused by that part's name.
func TestInt4PartMissing(t *testing.T) {
	for _, part := range []string{"qweight", "scales", "qzeros", "g_idx"} {
		dir, _ := inInt4(t, GPTQ, map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32}, 32, false)
		path := filepath.Join(dir, singleFile)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := "model.layers.0.self_attn.q_proj." + part
		data = bytes.Replace(data, []byte(name), bytes.ToUpper([]byte(name)), 1)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `tensor "`+name+`" is missing`) {
			t.Errorf("%s: error %v", part, err)
		}
	}
}
