package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit"
)

// texts draws strings that are hard to split.
var texts = rapid.StringOf(rapid.SampledFrom([]rune(" \n\r\t'sStTlLrReEvVdDmMaZéßſ漢字0129٣½.,!<|>\u00a0\u3000\u0085\u200d\u0301😀\ufffd")))

func TestBytesRoundTrip(t *testing.T) {
	for _, name := range []string{"demo", "gpt2", "o200k-bos"} {
		tok := openTest(t, name)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.OneOf(texts, rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
			for _, special := range []bool{false, true} {
				ids, err := tok.Encode(text, special)
				if err != nil {
					t.Fatal(err)
				}
				if got := tok.DecodeBytes(ids, false); string(got) != text {
					t.Fatalf("%q came back as %q", text, got)
				}
			}
		})
	}
}

// Any ids, such as bytes of characters in a wrong order, show the same text one by
// one as at once.
func TestDetokenizerEqualsDecode(t *testing.T) {
	sp, err := openSP(tinySP(true).bytes())
	if err != nil {
		t.Fatal(err)
	}
	toks := map[string]*Tokenizer{"bytes": openTest(t, "gpt2"), "sentencepiece": sp} // most of their ids are bytes
	for _, name := range []string{"mixtral", "mixtral-metaspace", "bert-uncased"} {
		toks[name] = openReference(t, name)
	}
	for name, tok := range toks {
		t.Run(name, func(t *testing.T) { checkStreams(t, tok) })
	}
}

func checkStreams(t *testing.T, tok *Tokenizer) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.OneOf(rapid.Uint32Range(0, 300), rapid.Uint32Range(0, uint32(tok.Vocab())+2))).Draw(t, "ids")
		skip := rapid.Bool().Draw(t, "skip")
		d := tok.NewDetokenizer(skip)
		var got strings.Builder
		for _, id := range ids {
			piece := d.Push(id)
			if strings.ToValidUTF8(piece, "") != piece || len(d.rest) > 3 {
				t.Fatalf("piece %q, rest %q", piece, d.rest)
			}
			got.WriteString(piece)
		}
		got.WriteString(d.Flush())
		if want := tok.Decode(ids, skip); got.String() != want {
			t.Fatalf("got %q, want %q", got.String(), want)
		}
	})
}

// Texts meant to stall: anything quadratic would not end in the time that tests have.
func TestAdversarialTexts(t *testing.T) {
	size := 1 << 17
	if testkit.Race {
		size >>= 4
	}
	long := []string{"a", "ab", "the", " ", "\n", " \n", "'", "'s", "<", "<|user|", "é", "1", "!", "\xff", "a\u0301", "\u0301", "x ", "\u3000", "aя中あ한ا", "中文字符", "A", "Aa中"}
	for _, name := range []string{"demo", "gpt2", "o200k-bos"} {
		checkAdversarial(t, name, openTest(t, name), long, size, true)
	}
	for _, name := range []string{"mixtral", "mixtral-metaspace", "bert-uncased", "deepseek2", "deepseek3", "gpt-oss", "qwen3"} {
		checkAdversarial(t, name, openReference(t, name), long, size, strings.HasPrefix(name, "deepseek"))
	}
}

func checkAdversarial(t *testing.T, name string, tok *Tokenizer, units []string, size int, back bool) {
	t.Helper()
	for _, unit := range units {
		text := strings.Repeat(unit, size/len(unit))
		ids, err := tok.Encode(text, true)
		if err != nil || back && string(tok.DecodeBytes(ids, false)) != text {
			t.Errorf("%s, %q: %v", name, unit, err)
		}
	}
}

// No text has more bytes than the bound allows its ids.
func TestMaxTokenBytes(t *testing.T) {
	for name, want := range map[string]int{"demo": 32, "removed": 0, "qwen2-added": 0} {
		if got := openTest(t, name).MaxTokenBytes(); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
	hard := []string{"\u1112\u1161\u11ab", "\U0001d42e\u0308\u0304", "\U0001d400", "u\u0308\u0304", "\u03b1\u0313\u0300\u0345", "\uff21", " ", "the"}
	for _, name := range []string{"demo", "gpt2", "o200k-bos", "digits", "literal", "prefix-space", "removed"} {
		tok := openTest(t, name)
		most := tok.MaxTokenBytes()
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(rapid.SliceOf(rapid.SampledFrom(hard)).Draw(t, "text"), "")
			if ids, err := tok.Encode(text, true); err != nil || most > 0 && len(text) > most*len(ids) {
				t.Fatalf("%s: %d bytes became %d ids of at most %d bytes, %v", name, len(text), len(ids), most, err)
			}
		})
	}
}

func TestTokenizerFacts(t *testing.T) {
	tok := openTest(t, "demo")
	if tok.Vocab() != 8192 || !tok.special[2] || tok.special[3] || tok.special[99999] {
		t.Errorf("vocab %d, special %v", tok.Vocab(), tok.special)
	}
	if id, ok := tok.ID("<|assistant|>"); !ok || id != 2 || string(tok.Bytes(id)) != "<|assistant|>" {
		t.Errorf("id %d, %v", id, ok)
	}
	if tok.Bytes(8192) != nil {
		t.Error("an id that is not there has bytes")
	}
	for _, text := range []string{"Once", "<|endoftext|>Once"} { // BOS from config.json, once
		ids, err := tok.EncodePrompt(text, true)
		if err != nil || ids[0] != 0 || ids[1] == 0 {
			t.Errorf("%q: %v, %v", text, ids, err)
		}
	}
}

// edit is the demo's file with one value replaced; path is dotted.
func edit(t *testing.T, path, value string) func(string) ([]byte, bool) {
	t.Helper()
	data, _ := demoFiles("tokenizer.json")
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if key, sub, nested := strings.Cut(path, "."); nested {
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(file[key], &inner); err != nil {
			t.Fatal(err)
		}
		inner[sub] = json.RawMessage(value)
		file[key], _ = json.Marshal(inner)
	} else {
		file[path] = json.RawMessage(value)
	}
	edited, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) ([]byte, bool) { return edited, name == "tokenizer.json" }
}

func TestPromptConfig(t *testing.T) {
	tests := []struct {
		config string
		want   []uint32
		err    string
	}{
		{`{"add_bos_token":false,"bos_token":"<|user|>"}`, nil, ""},
		{`{"add_bos_token":true,"bos_token":"<|user|>"}`, []uint32{1}, ""},
		{`{"add_bos_token":true,"bos_token":{"content":"<|assistant|>"}}`, []uint32{2}, ""},
		{`{"bos_token":null}`, []uint32{0}, ""}, // config.json's
		{`{"add_bos_token":true,"bos_token":"<nowhere>"}`, nil, "<nowhere>"},
		{`{"add_bos_token":true}`, nil, `token ""`},
		{`[]`, nil, "tokenizer_config.json"},
	}
	for _, tt := range tests {
		tok, err := Open(func(name string) ([]byte, bool) {
			if name == "tokenizer_config.json" {
				return []byte(tt.config), true
			}
			return demoFiles(name)
		})
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want an error with %q", tt.config, err, tt.err)
			}
		case err != nil || !slices.Equal(tok.prompt.before, tt.want):
			t.Errorf("%s: %v", tt.config, err)
		}
	}
}
