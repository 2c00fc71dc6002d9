package openai

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What an answer keeps to goes to the services in their words, however a client names it.
func TestReadGrammar(t *testing.T) {
	for body, want := range map[string]*pb.Grammar{
		`"response_format":{"type":"text"}`:        nil,
		`"response_format":null`:                   nil,
		`"response_format":{"type":"json_object"}`: {JsonObject: true, Compact: true},
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`: {JsonSchema: `{"type":"object"}`, Compact: true},
		`"response_format":{"type":"json_object","schema":{"type":"object","required":["a"]}}`:                         {JsonSchema: `{"type":"object","required":["a"]}`, Compact: true},
		`"response_format":{"type":"json_object","schema":"{\"type\":\"null\"}"}`:                                      {JsonSchema: `{"type":"null"}`, Compact: true},
		`"response_format":{"type":"json_object","schema":null}`:                                                       {JsonObject: true, Compact: true},
		`"response_format":{"type":"json_object","json_schema":{"schema":{"type":"null"}}}`:                            {JsonSchema: `{"type":"null"}`, Compact: true},
		`"response_format":{"type":"json_schema","schema":{"type":"null"}}`:                                            {JsonSchema: `{"type":"null"}`, Compact: true},
		`"guided_json":"{\"type\":\"string\"}"`:                                                                        {JsonSchema: `{"type":"string"}`, Compact: true},
		`"guided_regex":"a+"`:                                                                                          {Regex: "a+", Compact: true},
		`"guided_choice":["a","b"]`:                                                                                    {Choice: []string{"a", "b"}, Compact: true},
		`"structured_outputs":{"grammar":"root ::= \"x\""}`:                                                            {Ebnf: `root ::= "x"`, Compact: true},
		`"structured_outputs":{"json":{"type":"null"},"disable_any_whitespace":false}`:                                 {JsonSchema: `{"type":"null"}`},
	} {
		a, err := ReadChat(t.Context(), []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],`+body+`}`))
		if err != nil || !proto.Equal(a.Prompts[0].Grammar, want) {
			t.Errorf("%s: %v %v", body, a, err)
		}
	}
}

func TestReadGrammarRefused(t *testing.T) {
	for body, says := range map[string]string{
		`"response_format":{"type":"xml"}`:                                    "text, json_object or json_schema",
		`"response_format":{"type":"json_schema"}`:                            "has no schema",
		`"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`: "has no schema",
		`"response_format":{"type":"json_object","schema":""}`:                "has no schema",
		`"response_format":{"type":"text","schema":{}}`:                       "has a schema",
		`"response_format":5`:                                                 "response_format",
		`"guided_regex":""`:                                                   "guided_regex is empty",
		`"guided_choice":"a"`:                                                 "guided_choice is empty or of another type",
		`"guided_choice":[]`:                                                  "guided_choice is empty",
		`"response_format":{"type":"json_object"},"guided_regex":"a"`:         "give one of them",
		`"structured_outputs":{"regex":"a","choice":["b"]}`:                   "give one of them",
		`"structured_outputs":{"structural_tag":"x"}`:                         "structural_tag",
	} {
		if _, err := ReadCompletion(t.Context(), []byte(`{"model":"m","prompt":"x",`+body+`}`)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", body, err, says)
		}
	}
}
