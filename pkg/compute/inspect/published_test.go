package inspect

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/models.md anew")

// configs are published ones; they are not part of this repository.
const configs = "../../../../shared/data/moe-configs"

// published are figures of models' makers, in billions of parameters.
var published = []struct {
	file, name    string
	total, active float64
	source        string
	without       bool // active is told without the input embedding
}{
	{"mistralai--Mixtral-8x7B-v0.1_config.json", "Mixtral-8x7B", 46.7, 12.9, "Mistral AI, Mixtral of Experts (December 2023)", false},
	{"mistralai--Mixtral-8x22B-v0.1_config.json", "Mixtral-8x22B", 141, 39, "Mistral AI, Cheaper, Better, Faster, Stronger (April 2024)", false},
	{"Phi-3.5-MoE-instruct_config.transcribed.json", "Phi-3.5-MoE", 41.9, 6.6, "model card (16x3.8B, 6.6B active)", false},
	{"meta-llama--Llama-4-Scout-17B-16E-Instruct_config.json", "Llama-4-Scout", 109, 17, "model card", false},
	{"meta-llama--Llama-4-Maverick-17B-128E-Instruct_config.json", "Llama-4-Maverick", 400, 17, "model card", false},
	{"Qwen1.5-MoE-A2.7B_config.transcribed.json", "Qwen1.5-MoE-A2.7B", 14.3, 2.7, "model card", false},
	{"Qwen--Qwen3-30B-A3B_config.json", "Qwen3-30B-A3B", 30.5, 3.3, "model card", false},
	{"Qwen--Qwen3-235B-A22B_config.json", "Qwen3-235B-A22B", 235, 22, "model card", false},
	{"OLMoE-1B-7B_config.transcribed.json", "OLMoE-1B-7B", 6.9, 1.3, "OLMoE paper (arXiv:2409.02060), table 1", false},
	{"DeepSeek-V2-Lite_config.transcribed.json", "DeepSeek-V2-Lite", 15.7, 2.4, "DeepSeek-V2 paper (arXiv:2405.04434), appendix B", true},
	{"deepseek-ai--DeepSeek-V3_config.json", "DeepSeek-V3", 671, 37, "DeepSeek-V3 paper (arXiv:2412.19437)", false},
	{"deepseek-ai--DeepSeek-R1_config.json", "DeepSeek-R1", 671, 37, "model card", false},
	{"moonshotai--Kimi-K2-Instruct_config.json", "Kimi-K2", 1000, 32, "model card", false},
	{"openai--gpt-oss-20b_config.json", "gpt-oss-20b", 20.9, 3.6, "gpt-oss model card (arXiv:2508.10925), table 1", true},
	{"openai--gpt-oss-120b_config.json", "gpt-oss-120b", 116.8, 5.1, "gpt-oss model card (arXiv:2508.10925), table 1", true},
}

// tolerance is how far a published, rounded figure may be from ours.
const tolerance = 0.03

// One formula gives what makers publish, with or without the input embedding.
func TestPublished(t *testing.T) {
	var table strings.Builder
	table.WriteString("| model | published: total / active | ours: total | active | active without the input embedding | difference of total / active | source |\n|---|---|---|---|---|---|---|\n")
	for _, p := range published {
		t.Run(p.name, func(t *testing.T) {
			path := filepath.Join(configs, p.file)
			if _, err := os.Stat(path); err != nil {
				t.Skip("the published configs are not here")
			}
			r, err := Path(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if r.Layers == 0 {
				t.Skip(r.Reason)
			}
			total, active, without := float64(r.ParametersTotal)/1e9, float64(r.ParametersActive)/1e9, float64(r.ParametersActiveWithoutInput)/1e9
			ours := active
			if p.without {
				ours = without
			}
			if off(total, p.total) > tolerance || min(off(active, p.active), off(without, p.active)) > tolerance {
				t.Errorf("%.2f B, active %.2f or %.2f B; published are %v and %v", total, active, without, p.total, p.active)
			}
			fmt.Fprintf(&table, "| %s | %v / %v | %.2f | %.2f | %.2f | %+.1f %% / %+.1f %% | %s |\n", p.name, p.total, p.active, total, active, without,
				100*(total/p.total-1), 100*(ours/p.active-1), p.source)
		})
	}
	if strings.Count(table.String(), "\n") == len(published)+2 && !t.Failed() { // else some are not here
		checkTable(t, table.String())
	}
}

func off(ours, published float64) float64 { return math.Abs(ours/published - 1) }

// checkTable compares the table in the documentation.
func checkTable(t *testing.T, table string) {
	t.Helper()
	const path, begin, end = "../../../docs/models.md", "<!-- parameters -->\n", "<!-- end -->"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(data), begin)
	old, tail, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		t.Fatalf("%s has no table between %s and %s", path, begin, end)
	case *rewrite:
		if err := os.WriteFile(path, []byte(head+begin+table+end+tail), 0o600); err != nil {
			t.Fatal(err)
		}
	case old != table:
		t.Errorf("the table of %s is not what is computed; write it anew with -rewrite:\n%s", path, table)
	}
}
