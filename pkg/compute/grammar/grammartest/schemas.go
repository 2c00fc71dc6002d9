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

// Counted are ones that count characters, items or properties.
var Counted = []string{
	`{"type":"string","minLength":18,"maxLength":40}`, `{"type":"string","minLength":30}`, `{"type":"string","maxLength":1000000}`, `{"type":"string","maxLength":20,"pattern":"^[a-f]+-[a-f]*$"}`,
	`{"type":"string","pattern":"^[a-z]{1,900}$","minLength":3}`, `{"type":"string","pattern":"^([a-z]{3}\\.){17,40}[a-z]+$"}`, `{"type":"string","pattern":"^(ab|c){18,20}$","maxLength":25}`, `{"type":"string","pattern":"x{17}"}`,
	`{"type":"string","pattern":"^[^x]{0,300}x$"}`, `{"type":"string","format":"date","maxLength":10000}`, `{"type":"string","pattern":"^(aa)*$","minLength":3,"maxLength":30}`, `{"type":"string","pattern":"^é{20,30}$"}`,
	`{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":4,"maxItems":9}`, `{"type":"array","items":{"type":"boolean"},"maxItems":100000}`, `{"type":"array","minItems":40,"items":{"const":1}}`,
	`{"type":"array","prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"boolean"},"minItems":3,"maxItems":20}`, `{"type":"array","prefixItems":[{"const":1},{"const":2},{"const":3}],"maxItems":2}`,
	`{"type":"array","items":{"type":"array","items":{"type":"array","items":{"const":0},"minItems":2,"maxItems":3},"minItems":1,"maxItems":17},"maxItems":50}`,
	`{"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":5}`, `{"type":"object","properties":{"a":{"const":1},"b":{"const":1}},"minProperties":3}`, `{"type":"object","maxProperties":3}`,
	`{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3},"d":{"const":4}},"required":["c"],"additionalProperties":false,"minProperties":2,"maxProperties":3}`,
	`{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["b"],"minProperties":3,"maxProperties":4}`, `{"type":"object","properties":{"a":{},"b":{}},"maxProperties":1}`,
	`{"type":"object","properties":{"a":{"type":"string","maxLength":100},"b":{"type":"string","maxLength":300},"c":{"type":"array","items":{"type":"object","properties":{"d":{"type":"string","minLength":1,"maxLength":64}},"required":["d"],"additionalProperties":false},"minItems":1,"maxItems":200}},"required":["a","c"],"additionalProperties":false}`,
}

// Seldom are ones with keywords that few people use, or that say nothing.
var Seldom = []string{
	`{"$ref":"#a","$defs":{"x":{"$anchor":"a","type":"null"}}}`, `{"$id":"https://example.com/s","type":"object","properties":{"a":{"$ref":"https://example.com/s#/$defs/x"},"b":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"null"}},"additionalProperties":false}`,
	`{"type":"object","propertyNames":{"type":"string"}}`, `{"type":"object","propertyNames":{"pattern":"^[a-c]+$"},"additionalProperties":{"type":"integer"}}`, `{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"const":1}}`,
	`{"type":"object","propertyNames":{"minLength":2,"maxLength":70}}`, `{"type":"object","properties":{"ab":{"const":1},"c":{"const":2}},"propertyNames":{"minLength":2}}`, `{"type":"object","propertyNames":false}`, `{"type":"object","propertyNames":{"format":"uuid"},"minProperties":1}`,
	`{"type":"object","patternProperties":{}}`, `{"type":"object","patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":false}`, `{"type":"object","patternProperties":{"^x":{"type":"integer"}},"additionalProperties":{"type":"null"}}`,
	`{"type":"object","patternProperties":{"^x":{"type":"number"},"y$":{"type":"integer"}},"additionalProperties":{"type":"null"},"properties":{"xa":{"minimum":3}}}`, `{"type":"object","properties":{"a":{"type":"string"}},"patternProperties":{"^.*$":{"minLength":2}}}`,
	`{"type":"object","dependentRequired":{}}`, `{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"dependentRequired":{"a":["b"]},"additionalProperties":false}`, `{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"dependentRequired":{"a":["b"],"b":["c"],"c":[]}}`,
	`{"type":"object","properties":{"a":{"const":1},"b":{"type":"integer"}},"dependentSchemas":{"a":{"properties":{"b":{"const":3}},"required":["b"]},"b":true}}`, `{"dependentRequired":{"a":["b"]}}`,
	`{"type":"integer","if":{"minimum":3}}`, `{"type":"integer","then":{"minimum":3},"else":false}`, `{"type":"integer","if":{"minimum":3},"then":true,"else":{}}`, `{"type":"array","minContains":3,"maxContains":1}`, `{"type":"array","contains":{},"minContains":2,"items":{"const":1}}`,
	`{"type":"array","contains":{"const":1},"minContains":0}`, `{"type":"array","contains":true}`, `{"type":"object","properties":{"a":{"const":1}},"unevaluatedProperties":false}`, `{"type":"object","properties":{"a":{"const":1}},"unevaluatedProperties":{}}`,
	`{"type":"object","allOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"const":2}}}],"unevaluatedProperties":false}`, `{"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"const":2}}}],"properties":{"c":{"const":3}},"unevaluatedProperties":false}`,
	`{"type":"array","prefixItems":[{"const":1}],"unevaluatedItems":false}`, `{"type":"array","items":{"const":1},"unevaluatedItems":false}`, `{"type":"array","unevaluatedItems":{"const":1}}`, `{"anyOf":[{"not":{}},{"type":"string"}]}`, `{"not":{"type":"object"}}`, `{"not":{"type":["null","number"]}}`, `{"not":false,"type":"null"}`,
	`{"type":"object","properties":{"a":{"const":1}},"not":{"required":["a"]}}`, `{"not":{"required":["b"]}}`, `{"type":"array","uniqueItems":true,"maxItems":1,"items":{"type":"string"}}`, `{"type":"object","uniqueItems":true}`, `{"type":"array","uniqueItems":false}`,
	`{"type":"string","format":"password"}`, `{"type":"string","format":"binary"}`, `{"type":"integer","format":"int32"}`, `{"type":"number","format":"double"}`, `{"type":"string","format":"phone"}`, `{"type":"string","contentMediaType":"application/json","contentSchema":{"type":"object"}}`,
	`{"type":"number","maximum":1.7976931348623157e308}`, `{"type":"number","minimum":-1.7976931348623157e308,"maximum":5e-324}`, `{"type":"number","exclusiveMinimum":5e-324}`, `{"type":"string","pattern":"^\\S+$","title":"x","examples":[1],"deprecated":true,"x-y":{"not":{}}}`,
}

// Narrowed are ones of whose documents only some are allowed.
var Narrowed = []string{
	`{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c",1,1.0]}}`, `{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]},"minItems":2}`, `{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]},"minItems":1,"maxItems":2}`, `{"type":"array","uniqueItems":true,"items":{"const":[1]}}`,
	`{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"oneOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},{"type":"object","properties":{"b":{"const":1}},"required":["b"]},{"type":"object","properties":{"c":{}},"required":["c"]}]}`,
	`{"type":"object","oneOf":[{"properties":{"a":{"const":1},"b":{"const":2}},"required":["a"]},{"properties":{"b":{"const":2}},"required":["b"]}],"minProperties":1}`,
}

// Schema returns a schema that its seed makes, as people may write one.
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
