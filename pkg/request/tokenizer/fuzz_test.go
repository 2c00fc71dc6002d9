package tokenizer

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

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
		tok, _, err := parseJSON(data)
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
