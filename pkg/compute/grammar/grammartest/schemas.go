// Package grammartest has JSON schemas for tests: some that people write, and as many as are
// wanted that a seed makes.
package grammartest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Schemas are ones that people write.
var Schemas = []string{
	`{}`, `true`, `{"type":"object"}`, `{"type":"string"}`, `{"type":["integer","null"]}`, `{"type":"boolean"}`,
	`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150}},"required":["name","age"],"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string","maxLength":5},"c":{"type":"array","items":{"type":"boolean"},"maxItems":3}}}`,
	`{"type":"object","properties":{"name":{}},"required":["other","name"],"additionalProperties":{"type":"integer"}}`,
	`{"$defs":{"node":{"type":"object","properties":{"value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["value","next"],"additionalProperties":false}},"$ref":"#/$defs/node"}`,
	`{"type":"array","items":{"$ref":"#"},"maxItems":3}`,
	`{"enum":["red","green",3,null,{"a":[1,"x"]},[true]]}`, `{"const":"a\"b\\c\nd\u0001é"}`,
	`{"type":"string","pattern":"^[A-Z]{2}-\\d{3}$"}`, `{"type":"string","pattern":"ab+c","minLength":5,"maxLength":8}`,
	`{"type":"string","format":"date"}`, `{"type":"string","format":"uuid"}`, `{"type":"string","format":"ipv4"}`, `{"type":"string","format":"date-time"}`,
	`{"type":"string","format":"email"}`, `{"type":"string","format":"time"}`, `{"type":"string","format":"ipv6"}`, `{"type":"string","format":"hostname"}`,
	`{"type":"string","format":"duration"}`, `{"type":"string","format":"uri"}`,
	`{"type":"number","exclusiveMinimum":-1.5,"maximum":2.25}`, `{"type":"integer","multipleOf":7,"minimum":-100}`, `{"type":"number","multipleOf":0.25,"maximum":10,"minimum":0}`,
	`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, `{"type":"array","prefixItems":[{"const":1}],"items":{"const":2},"minItems":2}`,
	`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string"},"a":{"minimum":5}},"required":["b"]}]}`,
	`{"allOf":[{"properties":{"a":{"type":"integer"}},"additionalProperties":false},{"type":"object","properties":{"b":true}}]}`,
	`{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind"]},{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}]}`,
	`{"anyOf":[{"type":"string","minLength":3},{"type":"integer"}],"description":"x"}`, `{"minLength":2,"minimum":3}`, `{"type":"string","minLength":1,"maxLength":200}`,
	`{"type":"object","properties":{"é\"":{"type":"null"}},"required":["é\""],"maxProperties":1,"additionalProperties":false}`,
	`{"enum":["aa","b",12,0.5],"type":["string","number"],"minLength":2,"maximum":1}`,
	`{"items":[{"type":"integer"}],"additionalItems":{"type":"string"},"type":"array","$schema":"http://json-schema.org/draft-07/schema#"}`,
}

// Schema is a schema that its seed makes, as people may write one.
func Schema(seed uint64) string {
	g := &generator{rand.New(rand.NewPCG(seed, 1))}
	data, err := json.Marshal(g.schema(3))
	if err != nil {
		panic(err)
	}
	return string(data)
}

type generator struct{ *rand.Rand }

type object = map[string]any

func (g *generator) schema(depth int) any {
	kinds := 7
	if depth > 0 {
		kinds = 11
	}
	switch g.IntN(kinds) {
	case 0:
		return object{"type": "boolean"}
	case 1:
		return object{"type": []string{"null", "integer"}}
	case 2:
		low := g.IntN(50) - 25
		return object{"type": "integer", "minimum": low, "maximum": low + g.IntN(2000)}
	case 3:
		return object{"type": "number"}
	case 4:
		least := g.IntN(3)
		return object{"type": "string", "minLength": least, "maxLength": least + g.IntN(20)}
	case 5:
		return object{"enum": []any{"on", "off", g.IntN(100), nil, "a,\"b\""}[g.IntN(3):]}
	case 6:
		return object{"type": "string", "pattern": []string{"^[a-f0-9]{4,8}$", "^(ab|cd)+-?[0-9]*$", "^[^x]{1,3}x$"}[g.IntN(3)]}
	case 7:
		return object{"type": "array", "items": g.schema(depth - 1), "minItems": g.IntN(2), "maxItems": 1 + g.IntN(3)}
	case 8:
		return object{"anyOf": []any{g.schema(depth - 1), g.schema(depth - 1)}}
	}
	properties, required := object{}, []string{}
	for i := range 1 + g.IntN(4) {
		name := fmt.Sprintf("%s%d", []string{"a", "name", "é ", "x\"y"}[g.IntN(4)], i)
		properties[name] = g.schema(depth - 1)
		if g.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	out := object{"type": "object", "properties": properties, "required": required}
	if g.IntN(3) > 0 {
		out["additionalProperties"] = false
	}
	return out
}
