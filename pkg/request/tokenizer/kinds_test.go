package tokenizer

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folder writes files and returns where.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	tinyVocab  = `{"a":0,"b":1,"ab":2,"Ġ":3,"<|endoftext|>":4}`
	tinyMerges = "#version: 0.2\na b\n"
	tinyWords  = "[UNK]\n[CLS]\n[SEP]\nab\n##c\n,\nÄb\n"
)

func TestKinds(t *testing.T) {
	sp, ranks := string(tinySP(true).bytes()), string(tinyRanks())+"SGk= 256\n"
	tests := []struct {
		name, path, pattern string
		files               map[string]string
		text                string
		special             bool
		want                []uint32
	}{
		{"tokenizer.json before all", "", "", map[string]string{"tokenizer.json": tinyPieces, "tokenizer.model": sp}, "Hi", false, []uint32{7}},
		{"the model by name", "tokenizer.model", "", map[string]string{"tokenizer.json": tinyPieces, "tokenizer.model": sp}, "Hi", false, []uint32{266, 265}},
		{"sentencepiece", "", "", map[string]string{"tokenizer.model": sp}, " ab[X]\xff", false, []uint32{266, 261, 2, 3 + 0xef, 3 + 0xbf, 3 + 0xbd}},
		{"another name", "", "", map[string]string{"tokenizer.model.v3": sp}, "Hi", false, []uint32{266, 265}},
		{"control piece", "", "", map[string]string{"tokenizer.model": sp}, "<s>Hi", true, []uint32{1, 266, 265}},
		{"ranks", "", "gpt2", map[string]string{"tokenizer.model": ranks}, "Hi Hi", false, []uint32{256, 32, 256}},
		{"a pattern of one's own", "x.tiktoken", "[^i]+", map[string]string{"x.tiktoken": ranks}, "Hi", false, []uint32{'H', 'i'}},
		{"gpt-2", "", "", map[string]string{"vocab.json": tinyVocab, "merges.txt": tinyMerges}, "ab a", false, []uint32{2, 3, 0}},
		{"gpt-2, special", "merges.txt", "", map[string]string{"vocab.json": tinyVocab, "merges.txt": tinyMerges}, "<|endoftext|>a", true, []uint32{4, 0}},
		{"bert", "", "", map[string]string{"vocab.txt": tinyWords}, "Abc, ÄB", false, []uint32{3, 4, 5, 3}},
		{"bert, cased", "bert.txt", "", map[string]string{"bert.txt": tinyWords, "tokenizer_config.json": `{"do_lower_case":false}`}, "abc Äb AB", false, []uint32{3, 4, 6, 0}},
		{"added in the configuration", "", "kimi", map[string]string{"tiktoken.model": ranks, "tokenizer_config.json": `{"added_tokens_decoder":{"300":{"content":"[EOS]","special":true}}}`}, "[EOS]", true, []uint32{300}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tok, err := OpenPath(filepath.Join(folder(t, tt.files), tt.path), tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tok.Encode(tt.text, tt.special); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestUnusableFiles(t *testing.T) {
	line := func(token, rank string) string {
		return base64.StdEncoding.EncodeToString([]byte(token)) + " " + rank + "\n"
	}
	ranks := string(tinyRanks())
	tests := []struct {
		name    string
		pattern string
		files   map[string]string
		want    string
	}{
		{"nothing", "", nil, "no tokenizer is there"},
		{"two models", "", map[string]string{"a.tiktoken": ranks, "b.model.v2": ""}, "several"},
		{"a misspelt pattern", "gtp2", map[string]string{"tokenizer.model": ranks}, "no pattern is called"},
		{"no pattern known", "", map[string]string{"tokenizer.model": ranks}, "256 ranks"},
		{"bad pattern", "(", map[string]string{"tokenizer.model": ranks}, "compiling"},
		{"rank twice", "gpt2", map[string]string{"tokenizer.model": ranks + line("xy", "7")}, "line 257"},
		{"token twice", "gpt2", map[string]string{"tokenizer.model": ranks + line("a", "300")}, "line 257"},
		{"rank too high", "gpt2", map[string]string{"tokenizer.model": ranks + line("xy", "4000000")}, "limit for 257 tokens"},
		{"no number", "gpt2", map[string]string{"tokenizer.model": ranks + line("xy", "-1")}, "no number"},
		{"a byte is missing", "gpt2", map[string]string{"tokenizer.model": line("a", "0")}, "byte 0x00 has no rank"},
		{"a long token", "gpt2", map[string]string{"tokenizer.model": ranks + line(strings.Repeat("a", 2000), "256")}, "longer than 1024"},
		{"not in base64", "gpt2", map[string]string{"tokenizer.model": ranks + "? 300\n"}, "base64"},
		{"pattern for pieces", "gpt2", map[string]string{"tokenizer.model": string(tinySP(false).bytes())}, "has none"},
		{"pattern for words", "gpt2", map[string]string{"vocab.txt": tinyWords}, "have none"},
		{"no merges", "", map[string]string{"vocab.json": tinyVocab}, "merges.txt"},
		{"half a merge", "", map[string]string{"vocab.json": tinyVocab, "merges.txt": "a b\nab\n"}, "line 2"},
		{"vocab is no JSON", "", map[string]string{"vocab.json": "{", "merges.txt": ""}, "reading JSON"},
		{"vocabulary is sparse", "", map[string]string{"vocab.json": `{"a":9000000}`, "merges.txt": ""}, "limit for 1 tokens"},
		{"a word twice", "", map[string]string{"vocab.txt": "[UNK]\na\na\n"}, "line 3"},
		{"no unknown word", "", map[string]string{"vocab.txt": "a\n"}, "unk_token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := OpenPath(folder(t, tt.files), tt.pattern); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestUnusableSentencePiece(t *testing.T) {
	tests := []struct {
		name string
		edit func(m *spFile)
		want string
	}{
		{"none", func(m *spFile) { m.pieces = nil }, "no pieces"},
		{"unigram", func(m *spFile) { m.trainer[3] = 1 }, "UNIGRAM"},
		{"suffix", func(m *spFile) { m.trainer[24] = 1 }, "treat_whitespace_as_suffix"},
		{"no bytes", func(m *spFile) { m.trainer[35] = 1 }, "lacks <0x00>"},
		{"extra blanks", func(m *spFile) { m.normal[4] = 1 }, "remove_extra_whitespaces"},
		{"escape", func(m *spFile) { m.normal[5] = 0 }, "escape_whitespaces"},
		{"table", func(m *spFile) { m.more = []byte{3<<3 | 2, 3, 2<<3 | 2, 1, 'x'} }, "precompiled_charsmap"},
		{"denormalizer", func(m *spFile) { m.more = []byte{5<<3 | 2, 1, 0} }, "denormalizer_spec"},
		{"twice", func(m *spFile) { m.add("ab", 0, spNormal) }, "was there before"},
		{"empty", func(m *spFile) { m.add("", 0, spNormal) }, "is empty"},
		{"long", func(m *spFile) { m.add(strings.Repeat("a", 2000), 0, spNormal) }, "more than 1024"},
		{"unused", func(m *spFile) { m.add("u", 0, spUnused) }, "type 5"},
		{"no byte", func(m *spFile) { m.add("<0xZZ>", 0, spByte) }, "is none"},
		{"strange character", func(m *spFile) { m.add("aß", 0, spNormal) }, `'ß'`},
		{"no UTF-8", func(m *spFile) { m.add("a\xff", 0, spNormal) }, "not UTF-8"},
		{"cut off", func(m *spFile) { m.more = []byte{1<<3 | 2, 9} }, "field 1"},
		{"length beyond the end", func(m *spFile) { m.more = []byte{1<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0x7f} }, "field 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tinySP(false)
			tt.edit(m)
			if _, err := openSP(m.bytes()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}
