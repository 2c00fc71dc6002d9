package up

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

func TestGreeting(t *testing.T) {
	for _, tt := range []struct {
		name, prefix string
		how          suggestion
		want         []string
	}{
		{"text", "switchyard", suggestText("Once upon a time"), []string{
			`switchyard prompt --nats nats://x:1 --model m "Once upon a time"`,
			`nats req -s nats://x:1 switchyard.ask.m 'Once upon a time' --wait-for-empty --raw --timeout 60s --reply-timeout 60s`,
			`switchyard top --nats nats://x:1 --model m` + "\n",
		}},
		{"no tokenizer", "switchyard", suggestion{prompt: "--ids 1,2,3", body: `{"input_ids":[1,2,3]}`}, []string{
			`switchyard prompt --nats nats://x:1 --model m --ids 1,2,3` + "\n",
			`switchyard.ask.m '{"input_ids":[1,2,3]}' --wait-for-empty`,
		}},
		{"a body alone", "switchyard", suggestion{body: "{}"}, []string{"served at nats://x:1\n\n  nats req -s nats://x:1 switchyard.ask.m '{}' --wait-for-empty"}},
		{"prefix", "cluster", suggestText("x"), []string{"top --nats nats://x:1 --model m --prefix cluster\n", "cluster.ask.m"}},
	} {
		got := greeting("nats://x:1", tt.prefix, "m", tt.how, nil, nil)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, got)
			}
		}
	}
}

// Random weights are served under the name of their shape.
func TestUpSynthetic(t *testing.T) {
	t.Parallel()
	e := quietEnv()
	s, err := InProcess(t.Context(), e, func(up *Cmd) {
		up.Threads = 1
		if err := (SyntheticFlag{"tiny:1"}).SetShape(&up.ModelFlags); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if name := s.Node.ModelName(); name != "tiny_1" {
		t.Errorf("it is served as %s", name)
	}
	n := int32(3)
	if got := answer(t, s, &pb.Prompt{InputIds: []uint32{1, 2, 3}, MaxTokens: &n, IgnoreEos: true}); len(got) != int(n) {
		t.Errorf("%d tokens", len(got))
	}
}

// answer is what a pipeline that runs for one prompt answers.
func answer(t *testing.T, s cluster.Settings, p *pb.Prompt) (ids []uint32) {
	t.Helper()
	y, err := OpenCluster(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := y.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, stop, err := y.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	stream, err := c.Prompt(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range stream.Chunks() {
		if err = errors.Join(err, client.Failure(chunk)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, chunk.TokenIds...)
	}
	return ids
}

// A model of one layer is served without a predictor, which would have nothing to do.
func TestPredictorOfLayers(t *testing.T) {
	t.Parallel()
	e := quietEnv()
	for name, want := range map[string]int{"tiny": 1, "tiny:1": 0} {
		s, err := InProcess(t.Context(), e, func(up *Cmd) {
			up.Scaling, up.ModelFlags.synthetic = "static", name
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Count["predictor"]; got != want || s.Count["scaler"] != 1 {
			t.Errorf("%s: %d predictors, want %d, and %d scalers", name, got, want, s.Count["scaler"])
		}
		if err := s.Node.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSuggest(t *testing.T) {
	const bert, gpt2 = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nonce\n", `{"o":0,"n":1}`
	for _, tt := range []struct {
		name, golden string
		files        map[string]string
		want         string
	}{
		{"no tokenizer", "mixtral", nil, "--ids 1,2,3"},
		{"vocab.json", "mixtral", map[string]string{"vocab.json": gpt2, "merges.txt": ""}, `"Once upon a time"`},
		{"ranks that nobody knows", "mixtral", map[string]string{"tokenizer.model": "bw== 0\nbg== 1\n"}, "--ids 1,2,3"},
		{"vocab.txt", "bert_moe", map[string]string{"vocab.txt": bert}, `"Once upon a [MASK]"`},
		{"its own mask", "bert_moe", map[string]string{
			"vocab.txt":             strings.Replace(bert, "[MASK]", "<mask>", 1),
			"tokenizer_config.json": `{"mask_token":"<mask>"}`,
		}, `"Once upon a <mask>"`},
		{"no mask", "bert_moe", map[string]string{"vocab.txt": strings.Replace(bert, "[MASK]\n", "", 1)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := suggest(goldenBeside(t, tt.golden, tt.files)); got.prompt != tt.want {
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

// What models without a tokenizer are said to be asked with is accepted, and answered.
func TestSuggestionsAreAnswered(t *testing.T) {
	t.Parallel()
	for name, dir := range testkit.SomeOf(map[string]string{
		"decoder": goldens.Dir("mixtral"), "encoder": goldens.Dir("bert_moe"), "encoder with a mask": clustertest.Masked(t, goldens.Dir("bert_moe")), "both": goldens.Dir("bert2bert_moe"),
	}) {
		t.Run(name, func(t *testing.T) { answerSuggestion(t, dir) })
	}
}

func answerSuggestion(t *testing.T, dir string) {
	e := quietEnv()
	s, err := InProcess(t.Context(), e, func(up *Cmd) { up.Model, up.Threads = []string{dir}, 1 })
	if err != nil {
		t.Fatal(err)
	}
	p := &pb.Prompt{}
	if err := protojson.Unmarshal([]byte(suggest(s.Node.Shared.Model).body), p); err != nil {
		t.Fatal(err)
	}
	answer(t, s, p)
}

// goldenBeside is a golden checkpoint with further files in its folder.
func goldenBeside(t *testing.T, name string, files map[string]string) *model.Model {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(goldens.Dir(name))); err != nil {
		t.Fatal(err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Another server is not used, and that is no secret; the default one is nobody's wish.
func TestUpNamesItsServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    cli.Globals
		want bool
	}{
		{"default", cli.Globals{NATS: cli.DefaultNATS}, false},
		{"another", cli.Globals{NATS: "nats://user:secret@10.0.0.1:4222"}, true},
		{"credentials", cli.Globals{NATS: cli.DefaultNATS, Creds: "gate.creds"}, true},
	} {
		var out strings.Builder
		(&Cmd{Listen: "127.0.0.1:4222"}).warnServer(&cli.Env{Globals: tt.g, Log: tt.g.Logger(&out)})
		if strings.Contains(out.String(), "uses no --nats") != tt.want || strings.Contains(out.String(), "secret") {
			t.Errorf("%s: %q", tt.name, out.String())
		}
	}
}

// Hosts that follow hints have a predictor that sees all rows, also without a control loop.
func TestUpForesees(t *testing.T) {
	for _, tc := range []struct {
		offload, maps string
		capacity      int
	}{{"none", "", 0}, {"lru", "", 0}, {"fmoe", "", 1000}, {"next-use", "7", 7}, {"none", "5", 5}} {
		s, err := InProcess(t.Context(), quietEnv(), func(up *Cmd) { up.Threads, up.Offload, up.PredictorFlags.Maps = 1, tc.offload, tc.maps })
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Services.Predictor.Maps.Capacity; n != tc.capacity || (s.Count["predictor"] == 1) != (n > 0) || s.Node.Shared.AllRows != (n > 0) {
			t.Errorf("%+v: %d maps, %d predictors, all rows %v", tc, n, s.Count["predictor"], s.Node.Shared.AllRows)
		}
		if err := s.Node.Close(); err != nil {
			t.Error(err)
		}
	}
}
