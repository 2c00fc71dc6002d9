package edge

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a grammar asks and cannot be is refused at intake, by name.
func TestGrammarRefused(t *testing.T) {
	ask := func(g *pb.Grammar) func(*pb.Prompt) { return func(p *pb.Prompt) { p.Grammar = g } }
	object := &pb.Grammar{JsonObject: true}
	for says, change := range map[string]func(*pb.Prompt){
		"grammar: it is empty":          ask(&pb.Grammar{}),
		"exclude each other":            ask(&pb.Grammar{JsonObject: true, Regex: "a"}),
		"/properties/a: not: it cannot": ask(&pb.Grammar{JsonSchema: `{"properties":{"a":{"not":{"minLength":1}}}}`}),
		"regex is too large":            ask(&pb.Grammar{Regex: "(a|b)*a(a|b){40}"}),
		"leave out ignore_eos":          func(p *pb.Prompt) { p.Grammar, p.IgnoreEos = object, true },
		"ignore_eos and min_tokens":     func(p *pb.Prompt) { p.Grammar, p.MinTokens = object, proto.Int32(1) },
	} {
		_, err := demo().Resolve(prompt(change), now, 1)
		check(t, err, BadRequest, says)
	}
	m := demo()
	m.EOS = nil
	_, err := m.Resolve(prompt(ask(object)), now, 1)
	check(t, err, BadRequest, "names no end-of-sequence token")
	_, err = filler().Resolve(&pb.Prompt{InputIds: []uint32{7}, Grammar: object}, now, 1)
	check(t, err, BadRequest, "this model fills masks")
	m.EncodeText = nil
	_, err = m.Resolve(&pb.Prompt{InputIds: []uint32{7}, Grammar: object}, now, 1)
	check(t, err, BadRequest, "no tokenizer")
}

// A schema may stand in a JSON body as it is, and is a part of what the request is.
func TestGrammarInJSON(t *testing.T) {
	const schema = `{"b": {"type": "string"}, "a": 1}`
	p, _, err := DecodePrompt(nil, []byte(`{"text":"hi","grammar":{"json_schema":`+schema+`,"compact":true}}`), false)
	if err != nil || p.Grammar.GetJsonSchema() != schema || !p.Grammar.Compact {
		t.Fatalf("%v, %v", p, err)
	}
	r, err := demo().Resolve(&pb.Prompt{Text: "hi", Grammar: &pb.Grammar{Choice: []string{"a", "b"}}}, now, 1)
	if err != nil || len(r.Sequence.Grammar.GetChoice()) != 2 || SamplingOf(r.Sequence) != 2 {
		t.Errorf("%v, %v", r, err)
	}
	if string(hash(t, p)) == string(hash(t, &pb.Prompt{Text: "hi"})) {
		t.Error("a grammar makes no other request")
	}
	_, _, err = DecodePrompt(nil, []byte(`{"grammar":{"json_schema":{"a":}}}`), false)
	var typed *Error
	if !errors.As(err, &typed) || !strings.Contains(typed.Message, "malformed JSON") {
		t.Errorf("%v", err)
	}
}
