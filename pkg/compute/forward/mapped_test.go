package forward

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// A folder's weights are read where they are needed, and nothing else of them is
// in memory: opening and hashing maps nothing in, a gate the pages of its
// routers, a host those of its experts.
func TestMappedPages(t *testing.T) {
	const experts, layers, hidden, width = 16, 4, 256, 1024
	dir := wideModel(t, experts, layers, hidden, width)
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })                     // only read
	const expert, slack = 3 * hidden * width * 2, 512 << 10 // the kernel maps pages around those that are read
	before := mapped(t, dir)
	if before > slack {
		t.Errorf("opening maps %d of %d bytes", before, m.Bytes)
	}
	if _, err := LoadRouter(m, threads(t)); err != nil {
		t.Fatal(err)
	}
	gate := mapped(t, dir)
	if gate > before+layers*slack/2 {
		t.Errorf("a gate maps %d of %d bytes", gate, m.Bytes)
	}
	for e := range 2 {
		if _, err := loadExpert(t.Context(), m, ExpertID{1, e}); err != nil {
			t.Fatal(err)
		}
	}
	if host := mapped(t, dir) - gate; host > 2*expert+2*slack {
		t.Errorf("a host of two experts of %d bytes maps %d of %d", expert, host, m.Bytes)
	}
}

// wideModel is a folder of zeros in the mixtral layout.
func wideModel(t *testing.T, experts, layers, hidden, width int) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`{"architectures":["MixtralForCausalLM"],"model_type":"mixtral","num_hidden_layers":%d,"hidden_size":%d,
		"intermediate_size":%d,"num_local_experts":%d,"num_experts_per_tok":2,"num_attention_heads":4,"vocab_size":64,"max_position_embeddings":64}`,
		layers, hidden, width, experts)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var tensors []safetensors.Tensor
	size := int64(0)
	add := func(name string, shape ...int) {
		x := safetensors.Tensor{Name: name, DType: safetensors.BF16, Shape: shape}
		tensors = append(tensors, x)
		size += int64(2 * x.Len())
	}
	add("model.embed_tokens.weight", 64, hidden)
	add("model.norm.weight", hidden)
	add("lm_head.weight", 64, hidden)
	for l := range layers {
		layer := fmt.Sprintf("model.layers.%d.", l)
		add(layer+"input_layernorm.weight", hidden)
		add(layer+"post_attention_layernorm.weight", hidden)
		for _, name := range []string{"q", "k", "v", "o"} {
			add(layer+"self_attn."+name+"_proj.weight", hidden, hidden)
		}
		add(layer+"block_sparse_moe.gate.weight", experts, hidden)
		for e := range experts {
			expert := fmt.Sprintf("%sblock_sparse_moe.experts.%d.", layer, e)
			add(expert+"w1.weight", width, hidden)
			add(expert+"w2.weight", hidden, width)
			add(expert+"w3.weight", width, hidden)
		}
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteHeader(f, tensors, nil); err != nil {
		t.Fatal(err)
	}
	at, err := f.Seek(0, 1)
	if err != nil || f.Truncate(at+size) != nil || f.Close() != nil {
		t.Fatal("making the file as large as it says", err)
	}
	return dir
}

// mapped is how many bytes of the folder's files are in this process's memory.
func mapped(t *testing.T, dir string) (bytes int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip("no account of mapped pages here: ", err)
	}
	defer func() { _ = f.Close() }() // only read
	ours := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, "-") && strings.Contains(line, " r") {
			ours = strings.Contains(line, dir)
		}
		var kilobytes int
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kilobytes); ours && n == 1 {
			bytes += kilobytes << 10
		}
	}
	return bytes
}
