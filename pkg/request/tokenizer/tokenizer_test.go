package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	"pgregory.net/rapid"
)

// texts draws strings that are hard to split.
var texts = rapid.StringOf(rapid.SampledFrom([]rune(" \n\r\t'sStTlLrReEvVdDmMaZéßſ漢字0129٣½.,!<|>\u00a0\u3000\u0085\u200d\u0301😀\ufffd")))

func TestScannersMatchTheirPatterns(t *testing.T) {
	for pattern, scan := range scanners {
		re := regexp2.MustCompile(pattern, regexp2.None)
		rapid.Check(t, func(t *rapid.T) {
			// The engine knows no ſ as an S of any case; tokenizers does, and
			// the golden texts cover it.
			text := strings.ReplaceAll(texts.Draw(t, "text"), "'ſ", "ſ")
			want, got := parts(t, splitRegex(re, true, true), text), parts(t, scanWith(scan), text)
			if !slices.Equal(got, want) {
				t.Fatalf("%q with %s:\ngot  %q\nwant %q", text, pattern, got, want)
			}
		})
	}
}

func parts(t *rapid.T, s stage, text string) (out []string) {
	if err := s(text, func(part string) error { out = append(out, part); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

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

func TestDetokenizerEqualsDecode(t *testing.T) {
	tok := openTest(t, "gpt2") // its 256 bytes are most of its ids
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Uint32Range(0, uint32(tok.Vocab())+2)).Draw(t, "ids")
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

func TestLongWordsMergeLikeShortOnes(t *testing.T) {
	m := openTest(t, "demo").model
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("aehinorst e'é")), 1, shortWord, shortWord).Draw(t, "word")
		short := m.mergeShort(m.symbols(word))
		if long := newLongWord(m, m.symbols(word)).merge(); !slices.Equal(short, long) {
			t.Fatalf("%q: short %v, long %v", word, short, long)
		}
	})
}

// A merge may lead to pairs that come before the rest of its rank, and to ones
// of the same rank; published vocabularies have no such merges.
func TestMergesOutOfOrder(t *testing.T) {
	m := &bpe{unk: noID, merges: map[uint64]merge{}}
	for i := range m.byteID {
		m.byteID[i] = uint32(i % 4)
	}
	rapid.Check(t, func(t *rapid.T) {
		clear(m.merges)
		for rank := range rapid.IntRange(1, 12).Draw(t, "merges") {
			key := pairKey(rapid.Uint32Range(0, 8).Draw(t, "left"), rapid.Uint32Range(0, 8).Draw(t, "right"))
			m.merges[key] = merge{rank: uint32(rank), id: rapid.Uint32Range(0, 8).Draw(t, "whole")}
		}
		word := string(rapid.SliceOfN(rapid.Byte(), 1, shortWord).Draw(t, "word"))
		short := m.mergeShort(m.symbols(word))
		if long := newLongWord(m, m.symbols(word)).merge(); !slices.Equal(short, long) {
			t.Fatalf("%v: short %v, long %v", m.symbols(word), short, long)
		}
	})
}

// Twice the text takes twice the work, not more.
func TestLongWordsTakeLinearTime(t *testing.T) {
	m := openTest(t, "demo").model
	for _, unit := range []string{" ", "\n", "a", "=", "ab", "the", "é", "abcdefghij"} {
		looks := func(size int) int {
			w := newLongWord(m, m.symbols(strings.Repeat(unit, size/len(unit))))
			w.merge()
			return w.looks
		}
		if one, two := looks(1<<19), looks(1<<20); two > 2*one+1000 || two > 8<<20 {
			t.Errorf("%q: %d looks at 512 KiB, %d at 1 MiB", unit, one, two)
		}
	}
}

func TestCacheStartsOver(t *testing.T) {
	m := openTest(t, "demo").model
	m.cacheEntries = 3
	for _, word := range strings.Fields("one two three four five one two three") {
		fresh := m.merge(word)
		if got := m.encode(nil, word); !slices.Equal(got, fresh) || len(m.cache) > 3 {
			t.Errorf("%q: %v, want %v; %d cached", word, got, fresh, len(m.cache))
		}
	}
}

// Texts meant to stall. Anything quadratic takes minutes; the bound is far above
// what is needed, for slow machines under the race detector.
func TestAdversarialTexts(t *testing.T) {
	const size = 1 << 18
	long := []string{"a", "ab", "the", " ", "\n", " \n", "'", "'s", "<", "<|user|", "é", "1", "!", "\xff", "a\u0301", "x ", "\u3000"}
	for _, name := range []string{"demo", "gpt2"} {
		tok := openTest(t, name)
		for _, unit := range long {
			begun := time.Now()
			text := strings.Repeat(unit, size/len(unit))
			ids, err := tok.Encode(text, true)
			if err != nil || string(tok.DecodeBytes(ids, false)) != text {
				t.Errorf("%s, %q: %v", name, unit, err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("%s, %q took %v", name, unit, took)
			}
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
	if tok.Vocab() != 8192 || !tok.IsSpecial(2) || tok.IsSpecial(3) || tok.IsSpecial(99999) {
		t.Errorf("vocab %d, special %v", tok.Vocab(), tok.special)
	}
	if id, ok := tok.ID("<|assistant|>"); !ok || id != 2 || string(tok.Bytes(id)) != "<|assistant|>" {
		t.Errorf("id %d, %v", id, ok)
	}
	if tok.Bytes(8192) != nil {
		t.Error("an id that is not there has bytes")
	}
	for _, text := range []string{"Once", "<|endoftext|>Once"} { // BOS from config.json, once
		ids, err := tok.EncodePrompt(text)
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

func TestRefusals(t *testing.T) {
	const byteLevel = `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`
	tests := []struct{ path, value, want string }{
		{"model.type", `"WordPiece"`, `type "WordPiece"`},
		{"model.vocab", `{}`, "vocab is missing"},
		{"model.vocab", `{"a":4294967295}`, "merge 0"},
		{"model.dropout", `0.1`, "dropout 0.1"},
		{"model.byte_fallback", `true`, "byte_fallback"},
		{"model.continuing_subword_prefix", `"##"`, `"##"`},
		{"model.end_of_word_suffix", `"</w>"`, "</w>"},
		{"model.merges", `["a b c"]`, "two parts"},
		{"model.merges", `[["a"]]`, "two parts"},
		{"model.merges", `[["a","nowhere"]]`, `"nowhere"`},
		{"normalizer", `{"type":"Lowercase"}`, `"Lowercase"`},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"Prepend"}]}`, `"Prepend"`},
		{"pre_tokenizer", `null`, "none is given"},
		{"pre_tokenizer", `{"type":"Metaspace"}`, "Metaspace"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[` + byteLevel + `,` + byteLevel + `]}`, "last step"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Punctuation"},` + byteLevel + `]}`, `"Punctuation"`},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"MergedWithNext","pattern":{"Regex":"a"}},` + byteLevel + `]}`, "MergedWithNext"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","pattern":{"Regex":"("}},` + byteLevel + `]}`, "compiling"},
		{"pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","pattern":{}},` + byteLevel + `]}`, "neither"},
		{"decoder", `null`, "only ByteLevel"},
		{"decoder", `{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteLevel"}]}`, "Fuse"},
		{"post_processor", `{"type":"BertProcessing"}`, "BertProcessing"},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}}`, "single must be"},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[9999]}}}`, "9999"},
		{"added_tokens", `[{"id":7,"content":"<|user|>"}]`, "was 1 before"},
		{"added_tokens", `[{"id":7,"content":"<new>"}]`, "given twice"},
		{"added_tokens", `[{"id":4294967295,"content":"<new>"}]`, "limit"},
		{"added_tokens", `7`, "reading JSON"},
	}
	for _, tt := range tests {
		if _, err := Open(edit(t, tt.path, tt.value)); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "tokenizer.json") {
			t.Errorf("%s = %s: got %v, want an error with %q", tt.path, tt.value, err, tt.want)
		}
	}
	if _, err := Open(func(string) ([]byte, bool) { return nil, false }); err == nil {
		t.Error("no tokenizer.json, but no error")
	}
}

func TestSlowPatternsAreCutOff(t *testing.T) {
	re := regexp2.MustCompile(`(a+)+$`, regexp2.None)
	re.MatchTimeout = 50 * time.Millisecond
	begun := time.Now()
	err := splitRegex(re, true, true)(strings.Repeat("a", 40)+"b", func(string) error { return nil })
	if err == nil || time.Since(begun) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
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

func BenchmarkEncode(b *testing.B) {
	data, err := os.ReadFile("tokenizer.go")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"demo", "o200k-bos"} { // by hand, by the engine
		b.Run(name, func(b *testing.B) {
			tok := openTest(b, name)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := tok.Encode(string(data), true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeLongWord(b *testing.B) {
	tok := openTest(b, "demo")
	text := strings.Repeat("abcdefghij", 1<<20/10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tok.Encode(text, true); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"gpt2", "qwen2-added", "o200k-bos"} {
		data, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "Hello <left> world 123")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if regexp.MustCompile(`"Regex"`).Match(data) {
			return // a pattern of the fuzzer's may take all of its ten seconds
		}
		tok, _, err := parse(data)
		if err != nil {
			return
		}
		ids, err := tok.Encode(text, true)
		if err != nil {
			return
		}
		tok.Decode(ids, true)
	})
}

func FuzzEncode(f *testing.F) {
	f.Add([]byte("Hello, world 's \r\n\t 123 é <|user|>"))
	f.Add([]byte("\xe2\x82 \xf0\x9f\x98 \xff"))
	tok := openTest(f, "demo")
	f.Fuzz(func(t *testing.T, text []byte) {
		ids, err := tok.Encode(string(text), true)
		if err != nil || !bytes.Equal(tok.DecodeBytes(ids, false), text) {
			t.Errorf("%q: %v, %v", text, ids, err)
		}
	})
}
