package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/grammar/grammartest"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// pieces are a vocabulary: all bytes, and some texts that go over the ends of JSON's tokens.
var pieces = func() (out []string) {
	for b := range 256 {
		out = append(out, string([]byte{byte(b)}))
	}
	return append(out, `{"`, `":`, `": "`, `","`, `", "`, `"}`, `"}]`, `},{"`, `[[`, `]]`, `,"`, `:"`, "name", "na", "true", "false", "null", "nul", `"a`, `a"`,
		"  ", "\n  ", " \n", "12", "3.5", "-1", "0.", ".5", "e1", "1,", "é", "😀", `\"`, `\u`, `\n`, "abc", "bc", `ab"]`, `{}`, `[]`, `""`, `["`, `[{"`, "2024-01-", "x=")
}()

func vocabulary() *Set {
	return NewSet(len(pieces), func(id uint32, _ bool) []byte { return []byte(pieces[id]) })
}

// walker goes through a grammar at random.
type walker struct {
	t *testing.T
	f *follower
	r *rand.Rand
}

func walk(t *testing.T, set *Set, spec Spec, seed uint64) (*walker, error) {
	f, err := set.find(spec)()
	return &walker{t, f, rand.New(rand.NewPCG(seed, 28))}, err
}

func allowed(mask []uint64) (ids []uint32) {
	for id := range uint32(64 * len(mask)) {
		if mask[id>>6]>>(id&63)&1 == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// begin, mask and read are the follower's, with as much work as they take.
func (w *walker) begin() *pushdown.State {
	s, err := w.f.Begin(w.work())
	return check(w.t, s, err)
}

func (w *walker) mask(s *pushdown.State) []uint64 {
	mask, err := w.f.Mask(s, w.work())
	return check(w.t, mask, err)
}

func (w *walker) read(s *pushdown.State, text string) *pushdown.State {
	to, err := w.f.Read(s, []byte(text), w.work())
	return check(w.t, to, err)
}

func (w *walker) work() *pushdown.Work { return &pushdown.Work{Left: 1 << 40} }

func check[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// document takes so many tokens at random, and then the shortest way to an end.
func (w *walker) document(tokens int) string {
	w.t.Helper()
	var out strings.Builder
	s := w.begin()
	for range tokens {
		ids := allowed(w.mask(s))
		if len(ids) == 0 || s.Over() && w.r.IntN(4) == 0 {
			break
		}
		text := pieces[ids[w.r.IntN(len(ids))]]
		out.WriteString(text)
		if s = w.read(s, text); s == nil {
			w.t.Fatalf("%q is allowed behind %q, and cannot be read", text, out.String())
		}
	}
	for !s.Over() {
		next, least := byte(0), w.f.Least(s)
		for b := range 256 {
			if to := w.read(s, string([]byte{byte(b)})); to != nil && w.f.Least(to) < least {
				next, least = byte(b), w.f.Least(to)
			}
		}
		out.WriteByte(next)
		before := w.f.Least(s)
		if s = w.read(s, string([]byte{next})); s == nil || w.f.Least(s) >= before {
			w.t.Fatalf("stuck behind %q", out.String())
		}
	}
	return out.String()
}

func validate(t *testing.T, schema, document string) error {
	t.Helper()
	s, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", s); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		return err
	}
	return compiled.Validate(v)
}

// Whatever is taken of what is allowed, the document is valid, and comes to an end.
func TestDocumentsAreValid(t *testing.T) {
	set := vocabulary()
	for _, schema := range testkit.Some(everySchema()) {
		seeds := uint64(30)
		if !slices.Contains(grammartest.Schemas, schema) {
			seeds = 8
		}
		for _, compact := range []bool{false, true} {
			checkSchema(t, set, schema, compact, seeds)
		}
	}
}

// everySchema are all that people write.
func everySchema() []string {
	return slices.Concat(grammartest.Schemas, grammartest.Counted, grammartest.Seldom, grammartest.Narrowed)
}

func checkSchema(t *testing.T, set *Set, schema string, compact bool, seeds uint64) {
	t.Helper()
	for seed := range seeds {
		w, err := walk(t, set, Spec{JSONSchema: schema, Compact: compact}, seed)
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			return
		}
		document := w.document(int(seed))
		if err := validate(t, schema, document); err != nil {
			t.Errorf("%s: %q is not valid: %v", schema, document, err)
			return
		}
	}
}

// The same of schemas that are generated.
func TestGeneratedSchemas(t *testing.T) {
	set := vocabulary()
	seeds := uint64(200)
	if testkit.Race {
		seeds = 2 // one goroutine computes
	}
	for seed := range seeds {
		checkSchema(t, set, grammartest.Schema(seed), seed%2 == 0, 30)
	}
}

// A mask has just the tokens whose bytes can be read.
func TestMaskIsWhatCanBeRead(t *testing.T) {
	set := vocabulary()
	specs := []Spec{
		{JSONObject: true}, {Regex: `(a|bc)*x=\d{2,4}`}, {Choice: []string{"name", "nano", "true"}},
		{Regex: `^[a-f]{17,40}x?$`}, {Regex: `(abc){16,}`}, {EBNF: "root ::= (\"abc\" | [0-9]){17,40} x{2,300}\nx ::= \"x=\" | root\n"},
		{EBNF: "root ::= \"[\" (item (\",\" item)*)? \"]\" # a list\nitem ::= root | [0-9]+ | \"ab\"?\n"},
	}
	for _, schema := range everySchema() {
		specs = append(specs, Spec{JSONSchema: schema})
	}
	for i, spec := range specs {
		w, err := walk(t, set, spec, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			w.compare(25)
		}
	}
}

// compare reads each token of the vocabulary at each place of a walk.
func (w *walker) compare(tokens int) {
	w.t.Helper()
	var text strings.Builder
	for s := w.begin(); s != nil && tokens > 0; tokens-- {
		mask := w.mask(s)
		for id, piece := range pieces {
			if can := w.read(s, piece) != nil; can != (mask[id>>6]>>(id&63)&1 == 1) {
				w.t.Fatalf("behind %q %q can be read: %v", text.String(), piece, can)
			}
		}
		ids := allowed(mask)
		if len(ids) == 0 {
			if !s.Over() {
				w.t.Fatalf("stuck behind %q", text.String())
			}
			return
		}
		piece := pieces[ids[w.r.IntN(len(ids))]]
		text.WriteString(piece)
		s = w.read(s, piece)
	}
}

// Where an answer stands follows from its tokens alone, whatever was forgotten meanwhile.
func TestCursorIsAFunctionOfTokens(t *testing.T) {
	spec := Spec{JSONSchema: grammartest.Schemas[6]}
	one, other := vocabulary(), vocabulary()
	a, err := one.Begin(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var read []string
	for range 40 {
		ids := allowed(a.Mask())
		b, err := other.Begin(spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range read {
			b.Read([]byte(text))
		}
		if fmt.Sprint(ids) != fmt.Sprint(allowed(b.Mask())) || a.Over() != b.Over() {
			t.Fatalf("behind %q: %v and %v", read, ids, allowed(b.Mask()))
		}
		if len(ids) == 0 {
			break
		}
		text := pieces[ids[r.IntN(len(ids))]]
		read = append(read, text)
		a.Read([]byte(text))
	}
}

// What was read and is not of the grammar leaves nothing, and no way back.
func TestOutside(t *testing.T) {
	c, err := vocabulary().Begin(Spec{Choice: []string{"ab"}})
	if err != nil {
		t.Fatal(err)
	}
	c.Read([]byte("x"))
	c.Read([]byte("ab"))
	if c.Over() || c.Mask() != nil {
		t.Error("it goes on behind what it does not allow")
	}
}

// The first token of an answer may have other bytes than it has later.
func TestFirstToken(t *testing.T) {
	set := NewSet(3, func(id uint32, first bool) []byte {
		text := []string{" a", "a", " "}[id]
		if first {
			text = strings.TrimPrefix(text, " ")
		}
		return []byte(text)
	})
	c, err := set.Begin(Spec{Regex: "a( a)*"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(allowed(c.Mask())); got != "[0 1]" {
		t.Errorf("%s at first", got)
	}
	c.Read([]byte("a"))
	if got := fmt.Sprint(allowed(c.Mask())); got != "[0 2]" {
		t.Errorf("%s behind", got)
	}
}

func TestRefused(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 70) + "{}" + strings.Repeat("}", 70)
	for says, spec := range map[string]Spec{
		"set json_schema":                                  {},
		"json_object and regex exclude":                    {JSONObject: true, Regex: "a"},
		"at most 65536":                                    {Regex: strings.Repeat("a", 65537)},
		"choice has an empty text":                         {Choice: []string{"a", ""}},
		"regex is not UTF-8":                               {Regex: "\xff"},
		"lookaheads":                                       {Regex: "a(?!b)"},
		"regex is too large":                               {Regex: "(a|b)*a(a|b){40}"},
		"regex allows nothing":                             {Regex: `[^\x00-\x{10FFFF}]`},
		"it ends too early":                                {JSONSchema: `{"type":`},
		"something stands behind":                          {JSONSchema: `{} {}`},
		"nested more than 64 deep":                         {JSONSchema: deep},
		`key "a" is there twice`:                           {JSONSchema: `{"a":1,"a":2}`},
		"/properties/a: not: it cannot be kept":            {JSONSchema: `{"properties":{"a":{"not":{"minLength":1}}}}`},
		"patternProperties: lookaheads":                    {JSONSchema: `{"type":"object","patternProperties":{"^(?!x)":{}}}`},
		"uniqueItems: it cannot be kept":                   {JSONSchema: `{"uniqueItems":true}`},
		"there is no #/$defs/x":                            {JSONSchema: `{"$ref":"#/$defs/x"}`},
		"only references within":                           {JSONSchema: `{"$ref":"https://example.com"}`},
		"schemas 0 and 1: use anyOf":                       {JSONSchema: `{"oneOf":[{"type":"string"},{"minLength":2}]}`},
		"json_schema allows nothing that ends":             {JSONSchema: `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`},
		"allows nothing":                                   {JSONSchema: `{"type":"string","minLength":3,"maxLength":2}`},
		"minLength: no answer has so many":                 {JSONSchema: `{"type":"string","minLength":100000000}`},
		"minItems":                                         {JSONSchema: `{"type":"array","minItems":1000000000}`},
		"is none of null, boolean":                         {JSONSchema: `{"type":"text"}`},
		"minProperties: 3 cannot be kept":                  {JSONSchema: `{"type":"object","minProperties":3}`},
		"json_schema allows nothing that ends: the schema": {JSONSchema: `{"type":"object","properties":{"a":{}},"minProperties":2,"additionalProperties":false}`},
		"pattern: missing closing":                         {JSONSchema: `{"pattern":"["}`},
		"multipleOf: it must be above 0":                   {JSONSchema: `{"type":"number","multipleOf":0}`},
		"too many digits":                                  {JSONSchema: `{"minimum":1` + strings.Repeat("0", 50) + `}`},
		"rule root begins with itself":                     {EBNF: `root ::= root "a" | "b"`},
		"line 2: no rule is named \"b\"":                   {EBNF: "root ::= a\na ::= b"},
		"line 1: a closing parenthesis is wanted":          {EBNF: `root ::= ("a"`},
		"a rule's name is wanted":                          {EBNF: `"a"`},
		"rule \"root\" is there twice":                     {EBNF: "root ::= \"a\"\nroot ::= \"b\""},
		"is not closed on its line":                        {EBNF: `root ::= "a`},
		"is no number of times":                            {EBNF: `root ::= "a"{3,1}`},
		"parentheses are nested":                           {EBNF: "root ::= " + strings.Repeat("(", 100)},
	} {
		if g, err := Compile(spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, %v; want %q", g != nil, err, says)
		} else if len(err.Error()) > 1000 {
			t.Errorf("%q: an error of %d bytes", says, len(err.Error()))
		}
	}
}

// What is large and may be is made, and what would take long is refused.
func TestLarge(t *testing.T) {
	many := func(n int, f string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, f+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for name, tt := range testkit.SomeOf(map[string]struct {
		spec Spec
		want string // part of the error; "" for none
	}{
		"enum":       {Spec{JSONSchema: `{"enum":[` + many(8000, `"v%d"`) + `]}`}, ""},
		"properties": {Spec{JSONSchema: `{"properties":{` + many(900, `"p%d":{"type":"string"}`) + `},"additionalProperties":false}`}, ""},
		"optional":   {Spec{JSONSchema: `{"properties":{` + many(5000, `"%d":{}`) + `}}`}, "more than 4096 different subschemas"},
		"references": {Spec{JSONSchema: `{"$ref":"#/$defs/0","$defs":{` + many(2000, `"%d":{"$ref":"#/$defs/x"}`) + `,"x":{}}}`}, ""},
		"anyOf":      {Spec{JSONSchema: `{"anyOf":[` + many(2000, `{"const":%d}`) + `]}`}, ""},
		"allOf":      {Spec{JSONSchema: `{"allOf":[` + many(1500, `{"properties":{"a%d":{}}}`) + `]}`}, "too many properties in too many schemas"},
		"oneOf":      {Spec{JSONSchema: `{"oneOf":[` + many(1500, `{"const":%d}`) + `]}`}, "at most 128 are allowed"},
		"nested":     {Spec{JSONSchema: `{"type":"array","items":{"type":"array","items":{"type":"string","maxLength":500},"maxItems":500},"maxItems":500}`}, ""},
		"chain": {Spec{JSONSchema: `{"$ref":"#/$defs/a0","$defs":{` + func() string {
			var b strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&b, `"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
			}
			return b.String() + `"a1000":{}`
		}() + `}}`}, "at most 65536 are allowed"},
	}) {
		g, err := Compile(tt.spec)
		if (err == nil) != (tt.want == "") || (g != nil) != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: made %v, error %v; want %q", name, g != nil, err, tt.want)
		}
	}
}

// What people send with large counts is served, and a count has no say in what that takes.
func TestCountsAreServed(t *testing.T) {
	fields := func(n int, of string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"f%d":%s,`, i, of)
		}
		return `{"type":"object","properties":{` + strings.TrimSuffix(b.String(), ",") + `},"additionalProperties":false}`
	}
	for _, schema := range []string{
		`{"type":"string","maxLength":N}`, `{"type":"string","minLength":N}`, fields(4, `{"type":"string","maxLength":N}`), fields(16, `{"type":"string","maxLength":N}`), fields(16, `{"type":"string","minLength":7,"maxLength":N}`),
		fields(8, `{"type":"array","maxItems":N,"items":{"type":"object","properties":{"a":{"type":"string","maxLength":N},"b":{"type":"array","maxItems":N}},"required":["a"]}}`),
		fields(20, `{"type":"string","pattern":"^[a-zA-Z0-9_.-]{1,N}$"}`), fields(20, `{"type":"string","pattern":"^arn:aws:[a-z]+:[0-9]{12}:.{1,N}$"}`), fields(10, `{"type":"string","pattern":"^[\\w+=,.@-]+$","minLength":1,"maxLength":N}`),
		`{"type":"object","maxProperties":N,"additionalProperties":{"type":"string","maxLength":N}}`, `{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string"},"maxItems":N},"maxItems":N},"maxItems":N}`,
		`{"type":"string","pattern":"^\\p{L}{1,N}$"}`, `{"type":"string","format":"email","maxLength":N}`, `{"type":"object","propertyNames":{"maxLength":N}}`,
	} {
		for _, count := range []int{929, 10_000, 1_000_000} {
			if _, err := Compile(Spec{JSONSchema: strings.ReplaceAll(schema, "N", strconv.Itoa(count))}); err != nil {
				t.Errorf("%.120s of %d: %v", schema, count, err)
			}
		}
	}
	tools := Spec{Compact: true}
	for i := range 20 {
		tools.Calls = append(tools.Calls, Call{fmt.Sprintf(`{"name": "f%d", "arguments": `, i), fields(16, fmt.Sprintf(`{"type":"string","minLength":1,"maxLength":%d}`, 1000+i)), "}"})
	}
	for _, spec := range []Spec{tools, {Regex: `[a-z]{1,100000}`}, {Regex: `(\d{3}-){20,4000}\d`}, {EBNF: "root ::= [a-z]{1,100000} item{20,}\nitem ::= \"x\" | root \"y\"\n"}} {
		if _, err := Compile(spec); err != nil {
			t.Error(err)
		}
	}
}

// Masks of strings and lists are as many as there are differences, however far their bounds are.
func TestMasksAreSharedByCounts(t *testing.T) {
	set := vocabulary()
	for _, schema := range []string{`{"type":"string","minLength":5,"maxLength":50000}`, `{"type":"array","items":{"const":1},"maxItems":50000}`, `{"type":"string","pattern":"^([a-b]c){1,50000}$"}`} {
		w, err := walk(t, set, Spec{JSONSchema: schema, Compact: true}, 1)
		if err != nil {
			t.Fatal(err)
		}
		s, masks := w.begin(), map[*uint64]bool{}
		for i := range 3000 {
			text := "1,"
			if strings.Contains(schema, "string") {
				text = "ac"
			}
			if i == 0 {
				text = map[bool]string{true: `"`, false: "["}[text == "ac"]
			}
			if s = w.read(s, text); s == nil {
				t.Fatalf("%s: stuck at %d", schema, i)
			}
			masks[&w.mask(s)[0]] = true
		}
		if len(masks) > 40 {
			t.Errorf("%s: %d masks", schema, len(masks))
		}
	}
}

// Draft 4 says of minimum and maximum that they are exclusive.
func TestExclusiveOfDraft4(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":true}`: "4", `{"type":"integer","minimum":3,"exclusiveMinimum":false,"maximum":3}`: "3",
		`{"type":"integer","exclusiveMaximum":true,"maximum":2,"minimum":1}`: "1",
	} {
		w, err := walk(t, vocabulary(), Spec{JSONSchema: schema}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.document(5); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

// Draft 3 says at a property that it is required.
func TestRequiredOfDraft3(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"const":1,"required":true},"b":{"const":2,"required":false}},"additionalProperties":false}`: `{"a":1}`,
		`{"allOf":[],"type":"null"}`: `null`,
		`{"type":"object","required":true,"properties":{"a":{"const":1}},"maxProperties":0}`: `{}`,
	} {
		w, err := walk(t, vocabulary(), Spec{JSONSchema: schema, Compact: true}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.document(0); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

// Each keyword that cannot be kept is named, with the place and what to do.
func TestSchemasRefused(t *testing.T) {
	for schema, says := range map[string]string{
		`{"$ref":"#"}`: "$ref: it leads back to itself", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}`: "/$defs/a: $ref: it leads back", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`: "$ref: it leads back",
		`{"allOf":[{"$ref":"#"}]}`: "it leads back", `{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`: "/properties/a: $ref: it leads back", `{"allOf":[{"allOf":[{"$ref":"#/allOf/0"}]}]}`: "it leads back",
		`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`: "begins with itself", `{"type":"string","pattern":"a(?=b)"}`: "pattern: lookaheads", `{"type":"string","pattern":"(a)\\1"}`: "references back", `{"type":"string","pattern":"\\bword"}`: `\b and \B are not known`,
		`{"type":"string","pattern":"\\p{Emoji}"}`: `\p{Emoji} is not known`, `{"type":"string","pattern":"\\A"}`: `\A is not known`, `{"type":"string","not":{"minLength":3}}`: "not: it cannot be kept", `{"not":{"type":"integer"}}`: "not: it cannot be kept",
		`{"if":{"type":"string"},"then":{"minLength":2}}`: "if: it cannot be kept", `{"type":"array","contains":{"type":"string"}}`: "contains: it cannot be kept", `{"type":"array","items":{"type":"string"},"uniqueItems":true}`: "uniqueItems: it cannot be kept",
		`{"$dynamicRef":"#a"}`: "$dynamicRef: it cannot be kept", `{"type":"object","propertyNames":{"anyOf":[{"maxLength":3},{"pattern":"^x"}]}}`: "propertyNames: anyOf of names cannot be kept", `{"type":"object","propertyNames":"x"}`: "propertyNames: it is a schema",
		`{"type":"object","patternProperties":{"a":{},"b":{},"c":{},"d":{},"e":{}}}`: "at most 4 are kept", `{"type":"object","patternProperties":{"(":{}}}`: "patternProperties: missing closing )", `{"type":"object","dependentRequired":{"a":[1]}}`: "it has lists of names",
		`{"type":"object","minProperties":5,"properties":{"a":{}}}`: "minProperties: 5 cannot be kept", `{"type":"object","allOf":[{"properties":{"a":{}},"unevaluatedProperties":false}],"properties":{"b":{}}}`: "unevaluatedProperties: it cannot be kept",
		`{"type":"string","pattern":"a{17000000}"}`: "has no room in any answer", `{"type":"array","minItems":100000000}`: "minItems: no answer has so many items",
	} {
		for _, spec := range []Spec{{JSONSchema: schema}, {Calls: []Call{{Schema: `{"type":"object","properties":{"p":` + schema + `}}`}}}} {
			if len(spec.Calls) > 0 && strings.ContainsAny(schema, "#5") {
				continue
			}
			if _, err := Compile(spec); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", schema, err, says)
			}
		}
	}
}

// Whatever is asked, it is refused or followed without getting stuck.
func FuzzCompile(f *testing.F) {
	for _, s := range grammartest.Schemas {
		f.Add(s, uint8(0), uint64(1))
	}
	f.Add(`(a|b)*a(a|b){9}`, uint8(1), uint64(2))
	f.Add("root ::= \"[\" item* \"]\"\nitem ::= root | [a-z]{2,3}", uint8(2), uint64(3))
	set := vocabulary()
	f.Fuzz(func(t *testing.T, text string, kind uint8, seed uint64) {
		spec := [3]Spec{{JSONSchema: text}, {Regex: text}, {EBNF: text}}[kind%3]
		if _, err := Compile(spec); err != nil {
			return
		}
		w, err := walk(t, set, spec, seed)
		if err != nil {
			t.Fatal(err)
		}
		w.document(12)
	})
}

// What is kept of grammars has one bound, and the one that was asked for longest ago goes first.
func TestSetIsBounded(t *testing.T) {
	set := vocabulary()
	set.most = 4 << 20
	large := func(i int) Spec {
		var b strings.Builder
		for n := range 2000 {
			fmt.Fprintf(&b, `"%d of %d",`, n, i)
		}
		return Spec{JSONSchema: `{"enum":[` + strings.TrimSuffix(b.String(), ",") + `]}`}
	}
	for i := range 28 {
		for _, spec := range []Spec{large(i), {Regex: "used"}} {
			c, err := set.Begin(spec)
			if err != nil {
				t.Fatal(err)
			}
			c.Mask()
		}
	}
	bytes, used := 0, Spec{Regex: "used"}
	for _, k := range set.known {
		bytes += k.done.Load().Bytes()
	}
	if last := set.known[len(set.known)-1].key; bytes > set.most || len(set.known) < 3 || last != used.identity() {
		t.Errorf("%d grammars with %d bytes; the last one is the newest: %v", len(set.known), bytes, last == used.identity())
	}
}

// What was refused, or can be kept, is not found out again.
func TestChecked(t *testing.T) {
	var c Checked
	first := c.Check(Spec{Regex: "("})
	if again := c.Check(Spec{Regex: "("}); first == nil || !errors.Is(again, first) || len(c.known) != 1 {
		t.Errorf("%v, then %v; %d known", first, again, len(c.known))
	}
	if err := c.Check(Spec{EBNF: "root ::= \"(\""}); err != nil || len(c.known) != 2 {
		t.Errorf("%v, %d known", err, len(c.known))
	}
	for i := range 2 * maxKept {
		_ = c.Check(Spec{Regex: fmt.Sprint("(", i)})
	}
	if len(c.known) > maxKept {
		t.Errorf("%d are remembered", len(c.known))
	}
}

// What other schemas made is not taken for what a schema says.
func TestKnownAutomata(t *testing.T) {
	set := vocabulary()
	for i := range 3 {
		for _, schema := range grammartest.Schemas {
			for _, compact := range []bool{i == 0, i != 0} {
				fresh, shared := vocabulary(), set
				spec := Spec{JSONSchema: schema, Compact: compact}
				a, err := fresh.Begin(spec)
				b, again := shared.Begin(spec)
				if err != nil || again != nil {
					t.Fatal(err, again)
				}
				if !slices.Equal(a.Mask(), b.Mask()) {
					t.Errorf("%s: another mask behind other schemas", schema)
				}
			}
		}
	}
}

// Grammars by which the same text can be read in very many ways are served, and a token takes no more work late in an
// answer than early.
func TestAmbiguousIsCheap(t *testing.T) {
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+" | ", n), " | ") }
	for name, ebnf := range map[string]string{
		"pushes":         "root ::= s\ns ::= \"a\" s s | \"a\" | \" \" s s | [a-z] s s | [a-z]\n",
		"alternatives":   "root ::= " + many(4000, "[a-z ]*") + "\n",
		"rules":          "root ::= " + many(500, "a | b") + "\na ::= [a-z ]+ b?\nb ::= [a-z ]+ a?\n",
		"three deep":     "root ::= e\ne ::= [a-z ] | [a-z ] e | [a-z ] e e | [a-z ] e e e\n",
		"ends that fit":  "root ::= s\ns ::= [a-z ] s \"x\" | [a-z ] s \"y\" | [a-z ] s \"z\" | [a-z ]\n",
		"stars in stars": "root ::= a\na ::= ([a-z ]+ b?)+\nb ::= (\" \"+ [a-z]* c?)+\nc ::= ([a-z]+ \" \"*)+ a?\n",
	} {
		w, err := walk(t, vocabulary(), Spec{EBNF: ebnf}, 1)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var most [2]int
		s, r := w.begin(), rand.New(rand.NewPCG(3, 4))
		for i := range 600 {
			work := w.work()
			mask, err := w.f.Mask(s, work)
			if err != nil {
				t.Fatal(err)
			}
			ids := allowed(mask)
			if len(ids) == 0 {
				t.Fatalf("%s: stuck after %d", name, i)
			}
			if s, err = w.f.Read(s, []byte(pieces[ids[r.IntN(len(ids))]]), work); err != nil {
				t.Fatal(err)
			}
			most[i/300] = max(most[i/300], w.work().Left-work.Left)
		}
		if most[1] > 2*most[0]+1<<16 || most[0] > 1<<20 {
			t.Errorf("%s: a token takes %d at first, and %d late", name, most[0], most[1])
		}
	}
}
