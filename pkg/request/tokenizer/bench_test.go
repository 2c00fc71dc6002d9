package tokenizer

import (
	"strings"
	"testing"
)

// BenchmarkEncode needs the corpus: ordinary text in several scripts, and code.
func BenchmarkEncode(b *testing.B) {
	texts := map[string]string{"english": "books_fiction_en.txt.gz", "german": "gerdracor_de.txt.gz", "code": "go_stdlib_code.txt.gz", "chinese": "xquad_zh.txt.gz", "hindi": "xquad_hi.txt.gz"}
	for _, name := range []string{"demo", "gpt2", "cl100k", "llama4", "mistral-v3", "qwen3", "deepseek3", "deepseek2", "gpt-oss", "mixtral", "phi", "bert-uncased"} {
		for label, file := range texts {
			b.Run("tokenizer="+name+"/text="+label, func(b *testing.B) {
				tok := openReference(b, name)
				text, _ := slice(corpusFile(b, file, 1<<18), 1<<18-4)
				encodeOften(b, tok, string(text))
			})
		}
	}
}

// BenchmarkAdversarial is 1 MiB of one thing.
func BenchmarkAdversarial(b *testing.B) {
	for _, name := range []string{"demo", "mixtral", "bert-uncased", "deepseek2", "cl100k", "mistral-v3"} {
		for label, unit := range map[string]string{"a": "a", "blanks": " ", "newlines": "\n", "accents": "\u0301", "scripts": "aя中あ한ا", "letters": "abcdefghij", "chinese": "中文字符没有空格"} {
			b.Run("tokenizer="+name+"/text="+label, func(b *testing.B) {
				encodeOften(b, openReference(b, name), strings.Repeat(unit, 1<<20/len(unit)))
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, name := range []string{"demo", "gpt2", "llama4", "mistral-v3"} {
		b.Run("tokenizer="+name, func(b *testing.B) {
			for b.Loop() {
				openFresh(b, name)
			}
		})
	}
}

func encodeOften(b *testing.B, tok *Tokenizer, text string) {
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tok.Encode(text, false); err != nil {
			b.Fatal(err)
		}
	}
}
