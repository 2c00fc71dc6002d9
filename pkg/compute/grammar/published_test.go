package grammar

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// published are schemas of tools in the files that SWITCHYARD_SCHEMAS names: JSON arrays of
// objects with a name and a schema.
func published(t *testing.T) (out []struct {
	Name   string
	Schema json.RawMessage
}) {
	paths := os.Getenv("SWITCHYARD_SCHEMAS")
	if paths == "" {
		t.Skip("SWITCHYARD_SCHEMAS names no files with schemas")
	}
	for _, path := range strings.Split(paths, ":") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		part := out[:0:0]
		if err := json.Unmarshal(data, &part); err != nil {
			t.Fatal(err)
		}
		out = append(out, part...)
	}
	return out
}

// ecmaRegexp has Go's regular expressions as a validator's, where they know what is asked.
func ecmaRegexp(text string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(strings.NewReplacer(`\/`, `/`, `\-`, `-`).Replace(text))
	if err != nil {
		return regexp.MustCompile(""), nil // it is not checked
	}
	return re, nil
}

// What is served of published tools' schemas has valid documents alone, and the rest is refused
// by name.
func TestPublishedSchemas(t *testing.T) {
	set, served, schemas := vocabulary(), 0, published(t)
	var slowest time.Duration
	for i, s := range schemas {
		began := time.Now()
		spec := Spec{Compact: true, Calls: []Call{{Schema: string(s.Schema)}}}
		_, err := Compile(spec)
		slowest = max(slowest, time.Since(began))
		if err != nil {
			t.Logf("refused: %s: %v", s.Name, err)
			continue
		}
		served++
		c := jsonschema.NewCompiler()
		c.UseRegexpEngine(ecmaRegexp)
		resource, err := jsonschema.UnmarshalJSON(strings.NewReader(string(s.Schema)))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("schema.json", resource); err != nil {
			t.Logf("not checked: %s: %v", s.Name, err)
			continue
		}
		compiled, err := c.Compile("schema.json")
		if err != nil {
			t.Logf("not checked: %s: %v", s.Name, err)
			continue
		}
		for seed := range uint64(20) {
			w, err := walk(t, set, spec, uint64(i)<<8|seed)
			if err != nil {
				t.Fatal(err)
			}
			document := w.document(int(seed) * 8)
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
			if err == nil {
				err = compiled.Validate(v)
			}
			if err != nil {
				t.Errorf("invalid: %s: %q: %v", s.Name, document, err)
				break
			}
		}
	}
	t.Logf("%s of %d schemas are served; the slowest took %v", fmt.Sprintf("%.3f", float64(served)/float64(len(schemas))), len(schemas), slowest)
}
