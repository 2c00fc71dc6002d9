package tokenizer

import (
	"errors"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	const byteLevel = `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`
	before := func(step string) string {
		return `{"type":"Sequence","pretokenizers":[` + step + `,` + byteLevel + `]}`
	}
	tests := []struct{ path, value, want string }{
		{"model.type", `"Unigram"`, `type "Unigram"`},
		{"model.type", `"WordPiece"`, "no unk_token"},
		{"model.vocab", `{}`, "vocab is missing"},
		{"model.vocab", `{"a":4294967295}`, "merge 0"},
		{"model.dropout", `0.1`, "dropout 0.1"},
		{"model.byte_fallback", `true`, "byte_fallback"},
		{"model.continuing_subword_prefix", `"##"`, `"##"`},
		{"model.end_of_word_suffix", `"</w>"`, "</w>"},
		{"model.merges", `["a b c"]`, "two parts"},
		{"model.merges", `[["a"]]`, "two parts"},
		{"model.merges", `[["a","nowhere"]]`, `"nowhere"`},
		{"normalizer", `{"type":"Precompiled"}`, `"Precompiled"`},
		{"normalizer", `{"type":"Sequence","normalizers":[{"type":"Nmt"}]}`, `"Nmt"`},
		{"normalizer", `{"type":"Replace","pattern":{},"content":""}`, "neither"},
		{"normalizer", `{"type":"Replace","pattern":{"Regex":"("},"content":""}`, "compiling"},
		{"normalizer", `{"type":"Sequence"}`, "normalizers of Sequence"},
		{"normalizer", strings.Repeat(`{"type":"Sequence","normalizers":[`, 12) + strings.Repeat(`]}`, 12), "nested"},
		{"normalizer", `{"type":"Prepend","prepend":"` + strings.Repeat("a", 2000) + `"}`, "longer than"},
		{"pre_tokenizer", `null`, "ByteLevel"},
		{"pre_tokenizer", `{"type":"Metaspace"}`, "not one character"},
		{"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"last"}`, `"last"`},
		{"pre_tokenizer", `{"type":"UnicodeScripts"}`, `"UnicodeScripts"`},
		{"pre_tokenizer", before(byteLevel), "last step"},
		{"pre_tokenizer", before(`{"type":"Split","behavior":"Sideways","pattern":{"Regex":"a"}}`), "Sideways"},
		{"pre_tokenizer", before(`{"type":"Split","behavior":"Isolated","pattern":{"Regex":"("}}`), "compiling"},
		{"pre_tokenizer", before(`{"type":"Split","behavior":"Isolated","pattern":{}}`), "neither"},
		{"decoder", `null`, "none is given"},
		{"decoder", `{"type":"CTC"}`, `"CTC"`},
		{"decoder", `{"type":"WordPiece","prefix":"##"}`, "ByteLevel"},
		{"decoder", `{"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Strip"}]}`, `"Strip"`},
		{"decoder", `{"type":"Sequence","decoders":[{"type":"Strip","content":" ","start":1,"stop":0}]}`, `"Strip"`},
		{"post_processor", `{"type":"Unknown"}`, `"Unknown"`},
		{"post_processor", `{"type":"BertProcessing"}`, "BertProcessing"},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}}`, "single must be"},
		{"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[9999]}}}`, "9999"},
		{"added_tokens", `[{"id":7,"content":"<|user|>"}]`, "was 1 before"},
		{"added_tokens", `[{"id":7,"content":"<new>"}]`, "given twice"},
		{"added_tokens", `[{"id":4294967295,"content":"<new>"}]`, "limit"},
		{"added_tokens", `[{"id":4000000,"content":"<new>"}]`, "limit for 8193 tokens"},
		{"added_tokens", `7`, "reading JSON"},
	}
	for _, tt := range tests {
		if _, err := Open(edit(t, tt.path, tt.value)); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "tokenizer.json") {
			t.Errorf("%s = %s: got %v, want an error with %q", tt.path, tt.value, err, tt.want)
		}
	}
	if _, err := Open(func(string) ([]byte, bool) { return nil, false }); !errors.Is(err, ErrNone) {
		t.Errorf("no file at all: %v", err)
	}
}
