package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// A folder's files are counted; its config alone gives the same.
func TestFolderAndConfig(t *testing.T) {
	for _, name := range []string{"mixtral", "qwen2_moe-mixed", "phimoe", "deepseek_v3", "gpt_oss", "gpt_oss-mxfp4"} {
		t.Run(name, func(t *testing.T) {
			dir := goldens.Dir(name)
			folder, err := Path(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			config, err := Path(t.Context(), filepath.Join(dir, configFile))
			if err != nil {
				t.Fatal(err)
			}
			if !folder.Stored || config.Stored || !folder.Servable || folder.Reason != "" {
				t.Errorf("%+v", folder)
			}
			config.Stored = true
			a, _ := json.Marshal(folder)
			if b, _ := json.Marshal(config); !bytes.Equal(a, b) {
				t.Errorf("from files  %s\nfrom config %s", a, b)
			}
			sum := int64(0)
			for _, p := range folder.Parts {
				sum += p.Parameters
			}
			if sum != folder.ParametersTotal || folder.Bytes > 2*sum {
				t.Errorf("parts of %d parameters in %d bytes, %d in all", sum, folder.Bytes, folder.ParametersTotal)
			}
		})
	}
}

// Sizes that are each within bounds may come to more than can be counted.
func TestTooLarge(t *testing.T) {
	var config map[string]any
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(goldens.Dir("mixtral"), configFile))), &config); err != nil {
		t.Fatal(err)
	}
	for key, size := range map[string]int{"num_hidden_layers": 4096, "num_local_experts": 16384, "hidden_size": 1 << 18, "intermediate_size": 1 << 20} {
		config[key] = size
	}
	if r := report(t, config); r.Servable || !strings.Contains(r.Reason, "config.json: the first 1 of 4096 layers have ") {
		t.Errorf("%+v", r)
	}
}

// The fields that outsiders rely on are there whatever the model is.
func TestFields(t *testing.T) {
	for _, config := range []string{`{"model_type":"nobody"}`, readFile(t, filepath.Join(goldens.Dir("mixtral"), configFile))} {
		r, err := Config([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(r)
		var got map[string]any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{
			"family", "layers", "moe_layers", "experts", "top_k", "parameters_total", "parameters_active",
			"parameters_active_without_input_embedding", "bytes", "kv_bytes_per_token", "servable", "reason",
		} {
			if _, ok := got[field]; !ok {
				t.Errorf("%s is missing in %s", field, data)
			}
		}
		if (got["servable"] == true) != (got["reason"] == "") {
			t.Errorf("servable %v with reason %q", got["servable"], got["reason"])
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What cannot be served is described as far as it is understood.
func TestNotServable(t *testing.T) {
	mixtral := readFile(t, filepath.Join(goldens.Dir("mixtral"), configFile))
	tests := []struct {
		name, config string
		layers       int
		reason       string
	}{
		{"unknown family", `{"model_type":"nobody"}`, 0, `model_type "nobody" is not supported`},
		{"unsupported key", strings.Replace(mixtral, "{", `{"attention_sinkhole": 2, `, 1), 3, "attention_sinkhole = 2 is not supported"},
		{"missing key", `{"model_type":"mixtral"}`, 0, "is missing, but needed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Config([]byte(tt.config))
			if err != nil {
				t.Fatal(err)
			}
			if r.Servable || r.Layers != tt.layers || !strings.Contains(r.Reason, tt.reason) || (r.Bytes > 0) != (tt.layers > 0) {
				t.Errorf("%+v", r)
			}
			if !strings.Contains(r.String(), "servable      no: ") {
				t.Error(r)
			}
		})
	}
}

// Bad weights are a reason, and no config is an error.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	if _, err := Path(t.Context(), dir); !errors.Is(err, ErrNoConfig) {
		t.Error(err)
	}
	put := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(configFile, readFile(t, filepath.Join(goldens.Dir("mixtral"), configFile)))
	if r, err := Path(t.Context(), dir); err != nil || !r.Servable || r.Stored {
		t.Errorf("a folder with a config alone: %+v, %v", r, err)
	}
	put("model.safetensors", "bad")
	if r, err := Path(t.Context(), dir); err != nil || r.Servable || r.Bytes == 0 || !strings.Contains(r.Reason, "model.safetensors") {
		t.Errorf("bad weights: %+v, %v", r, err)
	}
	for _, bad := range []string{"", "[]", "{", `{"architectures":["X"]}`, `{"model_type":3}`} {
		put(configFile, bad)
		if _, err := Path(t.Context(), dir); !errors.Is(err, ErrNoConfig) {
			t.Errorf("config %q: %v", bad, err)
		}
	}
}

// A GGUF file needs a config beside it, and is looked at in its folder.
func TestGGUF(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(file, []byte("GGUF, but cut off"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{dir: "m.gguf needs that of the model", file: "give the folder"} {
		if _, err := Path(t.Context(), path); !errors.Is(err, ErrNoConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	config := readFile(t, filepath.Join(goldens.Dir("mixtral"), configFile))
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Path(t.Context(), dir); err != nil || r.Servable || !strings.Contains(r.Reason, "m.gguf") {
		t.Errorf("a bad file: %+v, error %v", r, err)
	}
}

// Packed types take what their packing takes.
func TestQuantised(t *testing.T) {
	var config map[string]any
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(goldens.Dir("mixtral"), configFile))), &config); err != nil {
		t.Fatal(err)
	}
	plain := report(t, config)
	experts := func(r *Report) Part { return r.Parts[len(r.Parts)-1] }
	config["quantization_config"] = map[string]any{"quant_method": "mxfp4"}
	n := experts(plain).Parameters
	if got := experts(report(t, config)); got.DType != "mxfp4" || got.Bytes != n/2+n/32 {
		t.Errorf("%+v", got)
	}
	config["quantization_config"] = map[string]any{"quant_method": "fp8", "weight_block_size": []int{128, 128}}
	if got := experts(report(t, config)); got.DType != "f8_e4m3" || got.Bytes <= n || got.Bytes > n+n/100 {
		t.Errorf("%+v of %d", got, n)
	}
	config["quantization_config"] = map[string]any{"quant_method": "awq", "bits": 4, "group_size": 32}
	if got := experts(report(t, config)); got.DType != "int4" || got.Bytes <= n/2 || got.Bytes > n/2+n/10 {
		t.Errorf("%+v of %d", got, n)
	}
	delete(config, "quantization_config")
	delete(config, "torch_dtype")
	config["dtype"] = "float32"
	if got := report(t, config); got.Bytes != 2*plain.Bytes {
		t.Errorf("%d bytes in float32, %d in bfloat16", got.Bytes, plain.Bytes)
	}
}

// The stored type is the whole config's or, where it has none, the text model's,
// by whichever name the family nests it.
func TestDTypes(t *testing.T) {
	type m = map[string]any
	for _, tt := range []struct {
		name, golden, part string // which part says it; empty: the whole config
		dtype, want        string
	}{
		{"outside", "mixtral", "", "float16", "f16"},
		{"not said", "mixtral", "", "", "bf16"},
		{"in a decoder", "bert2bert_moe", "decoder", "float32", "f32"},
		{"beside a decoder", "bert2bert_moe", "", "float32", "f32"},
		{"in a multimodal model", "llama4", "text_config", "float32", "f32"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := m{}
			if err := json.Unmarshal([]byte(readFile(t, filepath.Join(goldens.Dir(tt.golden), configFile))), &config); err != nil {
				t.Fatal(err)
			}
			delete(config, "torch_dtype")
			if tt.part == "text_config" {
				config = m{"model_type": "llama4", "text_config": config}
			}
			part := config
			if tt.part != "" {
				part, _ = config[tt.part].(m)
			}
			if tt.dtype != "" {
				part["torch_dtype"] = tt.dtype
			}
			if got := report(t, config); len(got.Parts) == 0 || got.Parts[0].DType != tt.want {
				t.Errorf("got %+v, want parts in %s", got, tt.want)
			}
		})
	}
}

func report(t *testing.T, config map[string]any) *Report {
	t.Helper()
	data, _ := json.Marshal(config)
	r, err := Config(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"mixtral","quantization_config":{"quant_method":"fp8","weight_block_size":[0,-1]}}`))
	for _, name := range []string{"mixtral", "qwen2_moe-mixed"} {
		data, err := os.ReadFile(filepath.Join(goldens.Dir(name), configFile))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Config(data)
		if err != nil {
			return
		}
		if r.Bytes < 0 || r.ParametersActive > r.ParametersTotal || r.ParametersActiveWithoutInput > r.ParametersActive {
			t.Errorf("%+v", r)
		}
	})
}

// What a model takes of a NATS server follows from its layers.
func TestStreams(t *testing.T) {
	for _, name := range []string{"mixtral", "qwen2_moe-mixed", "llama4-interleaved"} {
		r, err := Path(t.Context(), goldens.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		if want := (1 + int64(r.MoELayers)) * 64 << 20; r.StreamMemoryBytes != want || r.StreamFileBytes != 5440<<20 {
			t.Errorf("%s with %d MoE layers: %d bytes of memory, want %d, %d of file", name, r.MoELayers, r.StreamMemoryBytes, want, r.StreamFileBytes)
		}
	}
}

// Functions that hold an expert are those from the least size on; what they take is the platform's.
func TestRent(t *testing.T) {
	r, err := Path(t.Context(), filepath.Join(goldens.Dir("mixtral"), configFile))
	if err != nil {
		t.Fatal(err)
	}
	p, err := profiles.OpenPlatform("lambda")
	if err != nil {
		t.Fatal(err)
	}
	of := p.Cost()
	expert := r.expertBytes(4)
	of.Sizes = []float64{expert, expert + 16*float64(r.RowBytes), 2 * expert}
	y, err := r.Rent(of, 8)
	if err != nil || len(y.Sizes) != 2 || y.Sizes[0].Memory != of.Sizes[1] || y.ExpertBytes*float64(r.MoELayers*r.Experts) != 4*float64(parametersOf(r)) {
		t.Fatalf("%+v, %v", y, err)
	}
	for _, s := range y.Sizes {
		if run := of.Device(s.Memory).Compute(cost.Access{Bytes: expert, Rows: 8}); s.Seconds != run || s.Dollars != 1e6*of.Run(s.Memory, run) || s.Loads <= run {
			t.Errorf("%+v", s)
		}
	}
	if !strings.Contains(y.String(), "8 rows an invocation, of at most ") {
		t.Error(y)
	}
	for _, tc := range []struct {
		rows  int
		sizes []float64
		want  string
	}{{0, of.Sizes, "0 rows of "}, {y.MostRows + 1, of.Sizes, "an invocation takes 1 to "}, {8, []float64{1}, "the platform's largest function has 1 B; take another platform"}} {
		of.Sizes = tc.sizes
		if _, err := r.Rent(of, tc.rows); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d rows: %v, want %q", tc.rows, err, tc.want)
		}
	}
	if _, err := (&Report{}).Rent(of, 1); err == nil || !strings.Contains(err.Error(), "no routed experts") {
		t.Errorf("%v", err)
	}
}

func parametersOf(r *Report) (n int64) {
	for _, p := range r.Parts {
		if p.Name == expertsPart {
			n += p.Parameters
		}
	}
	return n
}

// Bytes of keys and values are those of what they are kept in, and only of what can be served so.
func TestKeepIn(t *testing.T) {
	const demo = "../../../models/demo"
	for kept, want := range map[model.KVCache]struct {
		bytes int64
		dtype string
	}{model.KVAuto: {8192, "f32"}, model.KVF32: {8192, "f32"}, model.KVBF16: {4096, "bf16"}, model.KVInt8: {2304, "int8"}} {
		r, err := Path(t.Context(), demo)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.KeepIn(kept); err != nil || r.KVBytesPerToken != want.bytes || r.KVDType != want.dtype {
			t.Errorf("%s: %d bytes in %s, want %+v; %v", kept, r.KVBytesPerToken, r.KVDType, want, err)
		}
	}
	r, err := Path(t.Context(), goldens.Dir("deepseek_v2"))
	if err != nil {
		t.Fatal(err)
	}
	before := r.KVBytesPerToken
	if err := r.KeepIn(model.KVInt8); err != nil || r.KVDType != "int8" || r.KVBytesPerToken != before*(40+2*4)/(4*40) {
		t.Errorf("latents of 40 numbers in %s: %d bytes, before %d: %v", r.KVDType, r.KVBytesPerToken, before, err)
	}
}
