package grammar

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
	"github.com/switchyard/switchyard/pkg/compute/grammar/jsonschema"
	"github.com/switchyard/switchyard/pkg/compute/grammar/pushdown"
)

// Spec is what an answer has to keep: one of what it has, but for Compact.
type Spec struct {
	JSONSchema string
	JSONObject bool
	Regex      string
	Choice     []string
	EBNF       string
	// Calls are texts around documents of schemas: an answer is one of them.
	Calls []Call
	// Compact has no white space between the tokens of JSON.
	Compact bool
}

// Call is a text, a JSON object of a schema, and a text. Where an object of it names properties
// and says nothing of others, it has no others.
type Call struct{ Before, Schema, After string }

// Bounds of what is compiled. The largest takes some hundred milliseconds and some ten MiB.
const (
	MaxBytes  = 64 << 10
	maxStates = 1 << 16
	maxPlaces = 1 << 16
	maxMoves  = 1 << 20
	maxWork   = 1 << 23
	maxRules  = 1 << 12
)

// Compile makes a grammar of what is asked.
func Compile(s Spec) (*pushdown.Grammar, error) { return s.compile(nil) }

func (s Spec) compile(known *jsonschema.Known) (*pushdown.Grammar, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	budget := &bytewise.Budget{States: maxStates, Work: maxWork}
	rules := pushdown.New(maxPlaces, maxMoves)
	begin, err := s.rules(budget, rules, known)
	if err != nil {
		return nil, s.explain(err)
	}
	g, err := rules.Finish(begin)
	if err != nil {
		return nil, s.explain(err)
	}
	return g, nil
}

// kinds returns what is asked for, of which one may be.
func (s *Spec) kinds() (names []string) {
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"json_schema", s.JSONSchema != ""}, {"json_object", s.JSONObject}, {"regex", s.Regex != ""},
		{"choice", len(s.Choice) > 0}, {"ebnf", s.EBNF != ""}, {"tools", len(s.Calls) > 0},
	} {
		if k.set {
			names = append(names, k.name)
		}
	}
	return names
}

func (s *Spec) check() error {
	names := s.kinds()
	switch {
	case len(names) == 0:
		return errors.New("it is empty: set json_schema, json_object, regex, choice or ebnf")
	case len(names) > 1:
		return fmt.Errorf("%s and %s exclude each other", names[0], names[1])
	}
	size := len(s.JSONSchema) + len(s.Regex) + len(s.EBNF)
	texts := append([]string{s.JSONSchema, s.Regex, s.EBNF}, s.Choice...)
	for _, c := range s.Calls {
		size += len(c.Before) + len(c.Schema) + len(c.After)
		texts = append(texts, c.Schema)
	}
	for _, c := range s.Choice {
		size += len(c)
		if c == "" {
			return errors.New("choice has an empty text")
		}
	}
	if size > MaxBytes {
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", names[0], size, MaxBytes)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s is not UTF-8", names[0])
		}
	}
	return nil
}

// rules makes the rules, and returns the one to begin with.
func (s *Spec) rules(budget *bytewise.Budget, rules *pushdown.Rules, known *jsonschema.Known) (pushdown.Rule, error) {
	settings := jsonschema.Settings{Compact: s.Compact, Object: s.JSONObject, Budget: budget, Rules: rules, MostRules: maxRules, Known: known}
	switch {
	case s.JSONObject:
		return jsonschema.Compile("{}", settings)
	case s.JSONSchema != "":
		return jsonschema.Compile(s.JSONSchema, settings)
	case len(s.Calls) > 0:
		return s.calls(settings)
	case s.EBNF != "":
		return compileEBNF(s.EBNF, budget, rules)
	}
	id, from, to := rules.Add(s.kinds()[0])
	if s.Regex != "" {
		t, err := regexOf(budget, s.Regex)
		if err == nil {
			rules.Text(from, to, t)
		}
		return id, err
	}
	d, err := bytewise.Literals(budget, s.Choice...)
	if err == nil {
		rules.Term(from, to, d)
	}
	return id, err
}

// regexOf returns the texts that all of a regular expression matches.
func regexOf(budget *bytewise.Budget, regex string) (*bytewise.Strings, error) {
	e, err := bytewise.Perl(regex)
	if err != nil {
		return nil, err
	}
	all, within := bytewise.Simplify([]*bytewise.Expression{e}, bytewise.AnyLength)
	body, err := bytewise.NewBody(budget, all, within == bytewise.AnyLength, bytewise.Options{})
	if err != nil {
		return nil, err
	}
	return bytewise.NewStrings(budget, body, within)
}

// calls makes a rule with a way for each call.
func (s *Spec) calls(settings jsonschema.Settings) (pushdown.Rule, error) {
	settings.Object, settings.Closed = true, true
	rules := settings.Rules
	id, from, to := rules.Add("a call")
	for _, c := range s.Calls {
		document, err := jsonschema.Compile(c.Schema, settings)
		if err != nil {
			return 0, err
		}
		begin, end := rules.Place(), rules.Place()
		if err := s.literal(settings, from, begin, c.Before); err != nil {
			return 0, err
		}
		rules.Call(begin, end, document)
		if err := s.literal(settings, end, to, c.After); err != nil {
			return 0, err
		}
	}
	return id, rules.Err()
}

func (s *Spec) literal(settings jsonschema.Settings, from, to pushdown.Place, text string) error {
	if text == "" {
		settings.Rules.Free(from, to)
		return nil
	}
	d, err := bytewise.Literals(settings.Budget, text)
	if err == nil {
		settings.Rules.Term(from, to, d)
	}
	return err
}

// explain says what of a request an error is about, and what to do.
func (s *Spec) explain(err error) error {
	name := s.kinds()[0]
	var refused *jsonschema.Refusal
	var large *bytewise.TooLargeError
	var empty *pushdown.EmptyError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("%s: %w", name, err)
	case errors.As(err, &large):
		return fmt.Errorf("%s is too large: %w; ask for less, such as fewer repetitions or a simpler pattern", name, err)
	case errors.Is(err, bytewise.ErrEmpty):
		return fmt.Errorf("%s allows nothing", name)
	case errors.As(err, &empty):
		return fmt.Errorf("%s allows nothing that ends: %w", name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}
