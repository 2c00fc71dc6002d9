package engines

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// published is a schema with documents that it allows.
type published struct {
	Name      string
	Schema    json.RawMessage
	Documents []json.RawMessage
}

// work is a schema for all engines to walk through.
type work struct {
	Name      string     `json:"name"`
	Schema    string     `json:"schema"`
	Documents [][]uint32 `json:"documents"`
}

// walked is what a walk through a schema took, in seconds.
type walked struct {
	Name    string
	First   float64
	Later   []float64
	Strayed int
	Error   string
}

// turns is how often each engine walks through all schemas, one after the other.
const turns = 3

// TestMasks compares masks with those of llguidance and XGrammar: the first one with compiling, and later ones.
// SWITCHYARD_MASKS names a Python that has both, SWITCHYARD_SCHEMAS a JSON array of objects with a name, a
// schema and documents, and SWITCHYARD_TOKENIZERS tokenizers, with colons between.
func TestMasks(t *testing.T) {
	python, schemas, tokenizers := os.Getenv("SWITCHYARD_MASKS"), os.Getenv("SWITCHYARD_SCHEMAS"), os.Getenv("SWITCHYARD_TOKENIZERS")
	if python == "" || schemas == "" || tokenizers == "" {
		t.Skip("set SWITCHYARD_MASKS, SWITCHYARD_SCHEMAS and SWITCHYARD_TOKENIZERS to run it")
	}
	data, err := os.ReadFile(schemas)
	if err != nil {
		t.Fatal(err)
	}
	var all []published
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Split(tokenizers, ":") {
		t.Run(filepath.Base(path), func(t *testing.T) { compareMasks(t, python, path, all) })
	}
}

func compareMasks(t *testing.T, python, path string, all []published) {
	text, err := tokenizer.OpenPath(path, "")
	if err != nil {
		t.Fatal(err)
	}
	todo := workOf(t, text, all)
	file := filepath.Join(t.TempDir(), "work")
	writeWork(t, text, todo, file)
	engines := map[string]func() []walked{
		"switchyard": func() []walked { return walkOurs(text, todo) },
		"llguidance": func() []walked { return walkTheirs(t, python, file, "llguidance") },
		"xgrammar":   func() []walked { return walkTheirs(t, python, file, "xgrammar") },
	}
	runs := map[string][][]walked{}
	for range turns {
		for name, run := range engines {
			runs[name] = append(runs[name], run())
		}
	}
	report(t, runs)
}

func workOf(t *testing.T, text *tokenizer.Tokenizer, all []published) (todo []work) {
	for _, p := range all {
		w := work{Name: p.Name, Schema: string(p.Schema)}
		for _, d := range p.Documents {
			ids, err := text.Encode(string(d), false)
			if err != nil {
				t.Fatal(err)
			}
			w.Documents = append(w.Documents, ids)
		}
		todo = append(todo, w)
	}
	return todo
}

// writeWork has one more token than the vocabulary, which ends answers.
func writeWork(t *testing.T, text *tokenizer.Tokenizer, todo []work, file string) {
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	out := json.NewEncoder(f)
	vocabulary := struct {
		Tokens []string `json:"tokens"`
		End    int      `json:"end"`
	}{End: text.Vocab()}
	for id := range uint32(text.Vocab()) {
		vocabulary.Tokens = append(vocabulary.Tokens, hex.EncodeToString(text.AnswerBytes(id, false)))
	}
	vocabulary.Tokens = append(vocabulary.Tokens, hex.EncodeToString([]byte("<end>")))
	if err := out.Encode(vocabulary); err != nil {
		t.Fatal(err)
	}
	for _, w := range todo {
		if err := out.Encode(w); err != nil {
			t.Fatal(err)
		}
	}
}

func walkTheirs(t *testing.T, python, file, engine string) (out []walked) {
	c := exec.CommandContext(t.Context(), python, "masks.py", file, engine)
	c.Stderr = os.Stderr
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var w walked
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
		out = append(out, w)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%s: %v", engine, err)
	}
	return out
}

func walkOurs(text *tokenizer.Tokenizer, todo []work) (out []walked) {
	set := grammar.NewSet(text.Vocab(), text.AnswerBytes)
	for _, w := range todo {
		out = append(out, walkOne(set, text, w))
	}
	return out
}

func walkOne(set *grammar.Set, text *tokenizer.Tokenizer, w work) walked {
	out := walked{Name: w.Name}
	for i, ids := range w.Documents {
		began := time.Now()
		c, err := set.Begin(grammar.Spec{JSONSchema: w.Schema})
		if err != nil {
			return walked{Name: w.Name, Error: err.Error()}
		}
		mask := c.Mask()
		if i == 0 {
			out.First = time.Since(began).Seconds()
		}
		for _, id := range ids {
			if int(id>>6) >= len(mask) || mask[id>>6]>>(id&63)&1 == 0 {
				out.Strayed++
				break
			}
			c.Read(text.AnswerBytes(id, false))
			began = time.Now()
			mask = c.Mask()
			out.Later = append(out.Later, time.Since(began).Seconds())
		}
	}
	return out
}

// report compares what all engines serve and walked through to the end.
func report(t *testing.T, runs map[string][][]walked) {
	served := map[string]int{}
	for name, all := range runs {
		strayed, refused := 0, 0
		for _, w := range all[0] {
			switch {
			case w.Error != "":
				refused++
				t.Logf("%s refuses %s: %.100s", name, w.Name, w.Error)
			case w.Strayed > 0:
				strayed++
			default:
				served[w.Name]++
			}
		}
		t.Logf("%s: refuses %d, does not take a document of %d", name, refused, strayed)
	}
	for _, name := range []string{"switchyard", "llguidance", "xgrammar"} {
		var of [5][]float64
		for _, run := range runs[name] {
			var first, later []float64
			for _, w := range run {
				if served[w.Name] == len(runs) {
					first, later = append(first, w.First), append(later, w.Later...)
				}
			}
			for i, v := range []float64{quantile(first, 0.5), quantile(first, 0.99), quantile(later, 0.5), quantile(later, 0.99), quantile(later, 1)} {
				of[i] = append(of[i], v)
			}
		}
		line := fmt.Sprintf("%-10s", name)
		for i, what := range []string{"first p50", "first p99", "later p50", "later p99", "later max"} {
			line += fmt.Sprintf("  %s %8.1f µs", what, 1e6*quantile(of[i], 0.5))
		}
		t.Log(line)
	}
	n := 0
	for _, of := range served {
		if of == len(runs) {
			n++
		}
	}
	t.Logf("%d schemas are served by all", n)
}

func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[min(len(x)-1, int(q*float64(len(x))))]
}
