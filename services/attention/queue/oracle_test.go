package queue

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/grammar/grammartest"
)

// oracle is llguidance, in a process of its own.
type oracle struct {
	in  *json.Encoder
	out *bufio.Scanner
}

// said is what it says of the next token.
type said struct {
	Mask, Error string
	Over        bool
}

// newOracle starts it with the Python that SWITCHYARD_LLGUIDANCE names, which has PyPI's llguidance.
func newOracle(t *testing.T) *oracle {
	python := os.Getenv("SWITCHYARD_LLGUIDANCE")
	if python == "" {
		t.Skip("SWITCHYARD_LLGUIDANCE names no Python that has llguidance")
	}
	c := exec.CommandContext(t.Context(), python, "testdata/oracle.py", "../../../models/demo/tokenizer.json")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends then
		_ = c.Wait()
	})
	o := &oracle{json.NewEncoder(in), bufio.NewScanner(out)}
	o.out.Buffer(nil, 1<<20)
	return o
}

func (o *oracle) ask(t *testing.T, what map[string]any) (answer said, mask []byte) {
	t.Helper()
	if err := o.in.Encode(what); err != nil {
		t.Fatal(err)
	}
	if !o.out.Scan() {
		t.Fatal("the oracle is gone")
	}
	if err := json.Unmarshal(o.out.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	mask, err := hex.DecodeString(answer.Mask)
	if err != nil {
		t.Fatal(err)
	}
	return answer, mask
}

// Each token that llguidance allows is allowed, at each place of walks through what it allows.
func TestOracle(t *testing.T) {
	o, v := newOracle(t), demoVocabulary(t)
	var schemas []string
	for _, schema := range slices.Concat(grammartest.Schemas, grammartest.Counted) {
		// The oracle takes 29 February in each year, and a 60th second in each minute.
		if !strings.Contains(schema, `"date`) && !strings.Contains(schema, `"time"`) {
			schemas = append(schemas, schema)
		}
	}
	for seed := range uint64(200) {
		schemas = append(schemas, grammartest.Schema(seed))
	}
	total := comparison{}
	for i, schema := range schemas {
		total.walk(t, o, v, schema, rand.New(rand.NewPCG(uint64(i), 7)))
	}
	t.Logf("%d schemas, of which the oracle refuses %d; %d places, %d tokens allowed by it, %d missing, %d more than it allows",
		len(schemas), total.refused, total.places, total.allowed, total.missing, total.more)
}

type comparison struct{ refused, places, allowed, missing, more int }

func (c *comparison) walk(t *testing.T, o *oracle, v *vocabulary, schema string, r *rand.Rand) {
	t.Helper()
	answer, mask := o.ask(t, map[string]any{"schema": schema})
	if answer.Error != "" {
		c.refused++
		return
	}
	at, err := v.set.Begin(grammar.Spec{JSONSchema: schema})
	if err != nil {
		t.Errorf("%s: %v; the oracle takes it", schema, err)
		return
	}
	var read strings.Builder
	for range 40 {
		ids := c.compare(t, v, at, mask, fmt.Sprintf("%s behind %q", schema, read.String()))
		if answer.Over && !at.Over() {
			t.Errorf("%s: %q may not end", schema, read.String())
		}
		if len(ids) == 0 {
			return
		}
		id := ids[r.IntN(len(ids))]
		read.Write(v.text(id, false))
		at.Read(v.text(id, false))
		if answer, mask = o.ask(t, map[string]any{"token": id}); answer.Error != "" {
			t.Fatalf("%s: the oracle goes astray behind %q: %s", schema, read.String(), answer.Error)
		}
	}
}

// compare looks at all tokens of one place, and returns those to go on with. Escapes by number
// are left out: the oracle takes halves of characters for some, and lets others write a
// property's name in another way.
func (c *comparison) compare(t *testing.T, v *vocabulary, at *grammar.Cursor, oracle []byte, where string) (ids []uint32) {
	t.Helper()
	c.places++
	mask := at.Mask()
	for id := range uint32(8192) {
		text := v.text(id, false)
		if len(text) == 0 {
			continue // it ends the answer
		}
		theirs, ours := oracle[id>>3]>>(id&7)&1 == 1, mask[id>>6]>>(id&63)&1 == 1
		switch {
		case theirs && ours:
			c.allowed++
			if !strings.Contains(string(text), `\`) {
				ids = append(ids, id)
			}
		case theirs:
			c.missing++
			t.Errorf("%s: %q is missing", where, text)
		case ours:
			c.more++
		}
	}
	return ids
}
