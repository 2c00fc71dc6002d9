package doors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// Two models behind one door answer as direct calls do, and neither takes the other's requests.
func TestTwoModels(t *testing.T) {
	t.Parallel()
	dirs := []string{goldens.Dir("mixtral"), goldens.Dir("qwen2_moe-mixed")}
	first, second := clustertest.Open(t, dirs[0]), clustertest.Open(t, dirs[1])
	specs := map[string]int{first.Name: first.Spec.Vocab, second.Name: second.Spec.Vocab}
	d := openOf(t, first, clustertest.Context(compared.Positions), clustertest.Beside(second))
	testkit.Eventually(t, "both are listed", func() bool {
		_, list := d.get(t, "/v1/models")
		return strings.Contains(list, `"id":"`+d.Name()+`"`) && strings.Count(list, `"object":"model"`) == 2
	})
	for i, name := range []string{d.Settings.Node.ModelName(), d.Settings.Beside[0].Node.ModelName()} {
		want := compared.Direct(t, dirs[i], tensor.BF16).Tokens
		vocab := specs[[]string{first.Name, second.Name}[i]]
		q := compared.AskerOf(client.New(d.Conn(t).NATS(), client.Settings{Model: name}), vocab)
		for n := range want {
			if got, err := compared.Sampled(t.Context(), q, n); err != nil || !slices.Equal(got, want[n]) {
				t.Errorf("%s, prompt %d: %v, %v; %v by direct calls", name, n, got, err, want[n])
			}
			if got := d.tokens(t, name, n, vocab); !slices.Equal(got, want[n]) {
				t.Errorf("%s, prompt %d by HTTP: %v; %v by direct calls", name, n, got, want[n])
			}
		}
	}
	for _, m := range []string{d.Name(), d.Settings.Beside[0].Node.ModelName()} {
		testkit.Eventually(t, "metrics say that "+m+" is ready", func() bool { // a replica may be late to say so
			_, page := d.get(t, "/metrics")
			return strings.Contains(page, `switchyard_ready{model="`+m+`"} 1`)
		})
	}
	if status, body := d.post(t, "/v1/completions", `{"model":"third","prompt":[1]}`); status != http.StatusNotFound || !strings.Contains(body, "served here: "+d.Name()) {
		t.Errorf("%d %s", status, body)
	}
}

// tokens asks by HTTP for what compared.Sampled asks for. Models without a tokenizer answer in ids.
func (d *door) tokens(t testing.TB, model string, prompt, vocab int) []uint32 {
	t.Helper()
	ids, err := json.Marshal(compared.PromptIDs(prompt, compared.PromptTokens, vocab))
	if err != nil {
		t.Fatal(err)
	}
	status, body := d.post(t, "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":%s,"max_tokens":%d,"temperature":0.9,"top_p":0.95,"seed":%d,"return_token_ids":true}`, model, ids, compared.AnswerTokens, prompt))
	var a struct {
		Choices []struct {
			TokenIDs []uint32 `json:"token_ids"`
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK || len(a.Choices) != 1 {
		t.Fatalf("%d %s", status, body)
	}
	return a.Choices[0].TokenIDs
}
