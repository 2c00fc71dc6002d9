package tokenizer

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// use encodes and decodes with what a fuzzer made.
func use(t *testing.T, tok *Tokenizer, text string) {
	ids, err := tok.Encode(text, true)
	if err != nil {
		return
	}
	for _, id := range ids {
		if !tok.Has(id) {
			t.Fatalf("%q has id %d, which is no token", text, id)
		}
	}
	if got, want := streamed(tok, ids), tok.Decode(ids, false); got != want {
		t.Fatalf("%v: id by id %q, at once %q", ids, got, want)
	}
	if most := tok.MaxTokenBytes(); most > 0 && len(text) > most*len(ids) {
		t.Fatalf("%d bytes became %d ids of at most %d bytes", len(text), len(ids), most)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(tinyBytes), "ab <left>a 1é\xff") // small ones: the engine takes minutes to shorten large ones
	f.Add([]byte(tinyPieces), "Hi  <s>é\xff")
	f.Add([]byte(tinyBERT), "Hi, ab?")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if regexp.MustCompile(`"Regex"`).Match(data) {
			return // a pattern of the fuzzer's may take all of its ten seconds
		}
		tok, file, err := parseJSON(data)
		if err != nil {
			return
		}
		_, _ = parseFrame(file.PostProcessor)
		use(t, tok, text)
	})
}

func FuzzSentencePiece(f *testing.F) {
	f.Add(tinySP(false).bytes(), "Hi  a ab\xff é▁")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if tok, err := openSP(data); err == nil {
			use(t, tok, text)
		}
	})
}

func FuzzRanks(f *testing.F) {
	f.Add([]byte("SGk= 256\nIGE= 257\n"), "gpt2", "Hi  a ab\xff é▁")
	f.Add([]byte("YWI= 300\n"), "cl100k", "ab")
	f.Fuzz(func(t *testing.T, more []byte, pattern, text string) {
		data := append(tinyRanks(), more...) // without all bytes it would be refused
		if _, err := patternSplitter(pattern, 0); err != nil || strings.ContainsAny(pattern, "(*+{") {
			pattern = "llama4"
		}
		tok, err := openRanks(data, pattern)
		if err != nil {
			return
		}
		use(t, tok, text)
		if ids, err := tok.Encode(text, false); err != nil || string(tok.DecodeBytes(ids, false)) != text {
			t.Fatalf("%q came back as %q, %v", text, tok.DecodeBytes(ids, false), err)
		}
	})
}

func FuzzVocabFiles(f *testing.F) {
	f.Add([]byte(`{"a":0,"b":1,"ab":2,"Ġ":3,"<|endoftext|>":4}`), []byte("#version: 0.2\na b\n"), "ab a<|endoftext|>")
	f.Fuzz(func(t *testing.T, vocab, merges []byte, text string) {
		files := map[string][]byte{"vocab.json": vocab, "merges.txt": merges}
		tok, err := Open(func(name string) ([]byte, bool) { data, ok := files[name]; return data, ok })
		if err == nil {
			use(t, tok, text)
		}
	})
}

func FuzzVocabTxt(f *testing.F) {
	f.Add([]byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n,\n"), []byte(`{"do_lower_case":false}`), "ab A, [MASK]b")
	f.Fuzz(func(t *testing.T, vocab, config []byte, text string) {
		files := map[string][]byte{"vocab.txt": vocab, "tokenizer_config.json": config}
		tok, err := Open(func(name string) ([]byte, bool) { data, ok := files[name]; return data, ok })
		if err == nil {
			use(t, tok, text)
		}
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

// Pieces of SentencePiece come back where the text has no visible blanks, and
// in each kind a stream shows what the whole does.
func FuzzPieces(f *testing.F) {
	f.Add("Hello  <s> é\u3000▁🙂 a<0x0A>")
	var toks []*Tokenizer
	for _, name := range []string{"mixtral", "mixtral-metaspace", "phi", "bert-cased"} {
		toks = append(toks, openReference(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			use(t, tok, text)
			ids, err := tok.Encode(text, false)
			if i < 3 && (err != nil || !strings.Contains(text, "▁") && string(tok.DecodeBytes(ids, false)) != text) && !strings.HasPrefix(text, " ") {
				t.Errorf("%q came back as %q, %v", text, tok.DecodeBytes(ids, false), err)
			}
		}
	})
}
