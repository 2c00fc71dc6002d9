package main

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

func TestTokenize(t *testing.T) {
	const demo = "../../models/demo"
	tests := []struct {
		name  string
		args  []string
		stdin string
		code  int
		want  string // on stdout for code 0, else on stderr
	}{
		{"text", []string{"--tokenizer", demo}, `{"text":"Once upon"}`, 0, `{"ids":[`},
		{"special is text", []string{"--tokenizer", demo + "/tokenizer.json"}, `{"text":"<|user|>"}`, 0, `{"ids":[`},
		{"special", []string{"--tokenizer", demo, "--special"}, "\n" + `{"text":"<|user|>"}` + "\n\n", 0, `{"ids":[1]}` + "\n"},
		{"bytes", []string{"--tokenizer", demo}, `{"bytes_b64":"/w=="}`, 0, `{"ids":[`},
		{"empty", []string{"--tokenizer", demo}, `{"text":""}`, 0, `{"ids":[]}`},
		{"decode", []string{"--tokenizer", demo, "--decode"}, `{"ids":[1]}`, 0, `{"text":"<|user|>"}`},
		{"nothing", []string{"--tokenizer", demo}, "", 0, ""},
		{"no JSON", []string{"--tokenizer", demo}, `{"text":"a"}` + "\nwhat?", 2, "line 2: unusable line"},
		{"half a character", []string{"--tokenizer", demo}, `{"text":"a\ud800"}`, 2, `line 1: unusable line: byte 10: \ud800 is half of a surrogate pair`},
		{"not UTF-8", []string{"--tokenizer", demo}, "{\"text\":\"\xff\"}", 2, `it is not UTF-8; send such texts as "bytes_b64"`},
		{"twice", []string{"--tokenizer", demo}, `{"text":"a","text":"b"}`, 2, `line 1: unusable line: key "text" is there twice`},
		{"twice in another case", []string{"--tokenizer", demo}, `{"text":"a","Text":"b"}`, 2, `line 1: unusable line: key "Text" is there twice`},
		{"neither", []string{"--tokenizer", demo}, `{}`, 2, `line 1: unusable line: it must have either "text" or "bytes_b64"`},
		{"no such id", []string{"--tokenizer", demo, "--decode"}, `{"ids":[7,99999]}`, 2, "ids[1] is 99999"},
		{"no ids", []string{"--tokenizer", demo, "--decode"}, `{"text":"a"}`, 2, `it must have "ids"`},
		{"no tokenizer", nil, "", 2, "--tokenizer"},
		{"not there", []string{"--tokenizer", "nowhere"}, "", 2, "nowhere"},
		{"no folder of a model", []string{"--tokenizer", "tokenize"}, "", 2, "no tokenizer is there"},
		{"special ids", []string{"--tokenizer", demo, "--decode", "--special"}, "", 2, "--special is of texts, and --decode reads ids; leave one of them out"},
		{"no pattern wanted", []string{"--tokenizer", demo, "--pattern", "gpt2"}, "", 2, "has its own"},
	}
	for _, tt := range testkit.Some(tests) {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(tt.stdin, append([]string{"tokenize"}, tt.args...)...)
			text := got.Err
			if tt.code == 0 {
				text = got.Out
			}
			if got.Code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("got %+v, want code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}

func TestTokenizeAndBack(t *testing.T) {
	texts := `{"text":"Once <b>\n\u2028 é 🙂\"\\"}` + "\n" + `{"bytes_b64":"/+KC"}` + "\n"
	ids := invoke(texts, "tokenize", "--tokenizer", "../../models/demo")
	back := invoke(ids.Out, "tokenize", "--tokenizer", "../../models/demo", "--decode")
	if want := `{"text":"Once <b>\n\u2028 é 🙂\"\\"}` + "\n" + `{"bytes_b64":"/+KC"}` + "\n"; back.Out != want {
		t.Errorf("got %q, %q, want %q", back.Out, back.Err, want)
	}
}
