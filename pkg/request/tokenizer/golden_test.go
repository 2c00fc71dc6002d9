package tokenizer

import (
	"os"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

// golden is testdata/golden.json.gz; see make.py there.
type golden struct {
	Texts      []string
	Tokenizers map[string]struct {
		Special, Plain, Prompts [][]uint32
		Decoded, Skipped, Mixed []string
		MixedIDs                [][]uint32 `json:"mixed_ids"`
	}
}

func readGolden(t testing.TB) (g golden) {
	t.Helper()
	testkit.ReadJSON(t, "testdata/golden.json.gz", &g)
	return g
}

func demoFiles(name string) ([]byte, bool) {
	data, err := os.ReadFile("../../../models/demo/" + name)
	return data, err == nil
}

// only serves one file as tokenizer.json.
func only(path string) func(string) ([]byte, bool) {
	return func(name string) ([]byte, bool) {
		data, err := os.ReadFile(path)
		return data, name == "tokenizer.json" && err == nil
	}
}

func openTest(t testing.TB, name string) *Tokenizer {
	t.Helper()
	files := only("testdata/" + name + ".json")
	if name == "demo" {
		files = demoFiles
	}
	tok, err := Open(files)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestGoldenTokenizers(t *testing.T) {
	g := readGolden(t)
	for name, want := range g.Tokenizers {
		t.Run(name, func(t *testing.T) {
			tok := openTest(t, name)
			for i, text := range g.Texts {
				checkEncode(t, tok, text, true, want.Special[i])
				checkEncode(t, tok, text, false, want.Plain[i])
				checkText(t, tok, want.Special[i], false, want.Decoded[i])
				checkText(t, tok, want.Special[i], true, want.Skipped[i])
			}
			for i, ids := range want.MixedIDs {
				checkText(t, tok, ids, false, want.Mixed[i])
			}
		})
	}
}

func checkEncode(t *testing.T, tok *Tokenizer, text string, special bool, want []uint32) {
	t.Helper()
	if got, err := tok.Encode(text, special); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, special %v:\ngot  %v, %v\nwant %v", text, special, got, err, want)
	}
}

func checkText(t *testing.T, tok *Tokenizer, ids []uint32, skip bool, want string) {
	t.Helper()
	if got := tok.Decode(ids, skip); got != want {
		t.Errorf("%v, skip %v:\ngot  %q\nwant %q", ids, skip, got, want)
	}
	d, got := tok.NewDetokenizer(skip), ""
	for _, id := range ids {
		got += d.Push(id)
	}
	if got += d.Flush(); got != want {
		t.Errorf("%v, skip %v, one by one:\ngot  %q\nwant %q", ids, skip, got, want)
	}
}

func TestGoldenPrompts(t *testing.T) {
	g := readGolden(t)
	tok := openTest(t, "o200k-bos")
	for i, text := range g.Texts {
		want := g.Tokenizers["o200k-bos"].Prompts[i]
		if len(want) > 1 && want[1] == want[0] {
			want = want[1:] // unlike Hugging Face, one BOS is enough
		}
		if got, err := tok.EncodePrompt(text, true); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
}
