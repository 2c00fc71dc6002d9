package tokenizer

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"testing"
)

// openMarked is a small tokenizer with special tokens of both kinds, those found
// before and those found after normalising, and one that is not special.
func openMarked(t *testing.T) *Tokenizer {
	t.Helper()
	var file map[string]any
	data, err := os.ReadFile("testdata/qwen2-added.json")
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	file["added_tokens"] = []any{
		map[string]any{"id": 900, "content": "<raw>", "special": true},
		map[string]any{"id": 901, "content": "<norm>", "special": true, "normalized": true},
		map[string]any{"id": 902, "content": "<tool>"},
	}
	if data, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	tok, err := Open(func(name string) ([]byte, bool) { return data, name == "tokenizer.json" })
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestEncodeParts(t *testing.T) {
	tok := openMarked(t)
	in := func(s string) Part { return Part{s, false} }
	out := func(s string) Part { return Part{s, true} }
	tests := []struct {
		name  string
		parts []Part
		want  []uint32 // added tokens
	}{
		{"inside", []Part{in("<raw>a<norm>b<tool>")}, []uint32{900, 901, 902}},
		{"outside", []Part{out("<raw>a<norm>b<tool>")}, nil},
		{"between", []Part{in("<raw>"), out("<raw>x<norm>y"), in("<norm>")}, []uint32{900, 901}},
		{"across", []Part{in("<r"), out("aw>"), in("<no"), out("rm>")}, nil},
		{"across from outside", []Part{out("<r"), in("aw><raw>"), out("<nor"), in("m><norm>")}, []uint32{900, 901}},
		{"in two parts of the template", []Part{in("<r"), in("aw><to"), in("ol>")}, []uint32{900, 902}},
		{"empty parts", []Part{in(""), out(""), in("<raw>"), out("")}, []uint32{900}},
		{"none", nil, nil},
	}
	for _, tt := range tests {
		ids, err := tok.EncodeParts(tt.parts, func(token string) bool { return token == "<tool>" })
		if err != nil {
			t.Fatal(err)
		}
		text, got := "", []uint32(nil)
		for _, p := range tt.parts {
			text += p.Text
		}
		for _, id := range ids {
			if id >= 900 {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, tt.want) || tok.Decode(ids, false) != text {
			t.Errorf("%s: %v of %q, want %v", tt.name, got, tok.Decode(ids, false), tt.want)
		}
	}
}

// A text without added tokens has the same ids in parts as in one, also where a
// normal form or a word spans two parts.
func TestPartsAreOneText(t *testing.T) {
	tok := openMarked(t)
	tok.normalized = &finder{}
	for _, parts := range [][]Part{
		{{"don", false}, {"'t stop\n", true}, {"\n now", false}}, {{"e", true}, {"\u0301 x", false}}, {{"  ", false}, {" a", true}},
	} {
		text := ""
		for _, p := range parts {
			text += p.Text
		}
		want, err := tok.Encode(text, true)
		got, failed := tok.EncodeParts(parts, func(string) bool { return true })
		if err != nil || failed != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v, %v", text, got, failed, want, err)
		}
	}
}

// What many parts take is in proportion to their text, where each is normalised by itself, too.
func TestManyParts(t *testing.T) {
	tok := openMarked(t)
	parts := slices.Repeat([]Part{{`", "`, false}, {"abcd", true}}, 4000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := tok.EncodeParts(parts, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 16<<20 {
		t.Errorf("%d parts took %d MiB", len(parts), made>>20)
	}
}

// Of special tokens in a prompt's text only the mask counts, unless all do.
func TestPromptSpecials(t *testing.T) {
	tok := openMarked(t)
	tok.config.MASK = "<raw>"
	for special, want := range map[bool][]uint32{false: {900}, true: {900, 901}} {
		ids, err := tok.EncodePrompt("a<raw>b<norm>", special)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint32
		for _, id := range ids {
			if id >= 900 {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("special %v: %v, want %v", special, got, want)
		}
	}
}
