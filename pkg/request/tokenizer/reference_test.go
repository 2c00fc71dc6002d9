package tokenizer

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/switchyard/switchyard/internal/testkit"
)

// reference is testdata/reference.json.gz: hashes of what the reference libraries
// give, made by reference.py there.
type reference struct {
	Slice, Head    int
	Corpus         map[string]map[string][]string // by file and tokenizer, of each slice
	Heads          map[string]map[string]string
	Nasty, Special map[string][]string // by tokenizer, of each string of nasty.json.gz
}

func readReference(t *testing.T) (r reference) {
	t.Helper()
	testkit.ReadJSON(t, "testdata/reference.json.gz", &r)
	return r
}

// repeated is some bytes, and how often they stand: in JSON a list of both.
type repeated struct {
	unit  []byte
	count int
}

// UnmarshalJSON reads such a list.
func (r *repeated) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.unit, &r.count})
}

// nastyStrings are those of nasty.json.gz: lists of bytes and how often they stand.
func nastyStrings(t *testing.T) (list []string) {
	t.Helper()
	var rows [][]repeated
	testkit.ReadJSON(t, "testdata/nasty.json.gz", &rows)
	for _, row := range rows {
		var b strings.Builder
		for _, part := range row {
			b.WriteString(strings.Repeat(string(part.unit), part.count))
		}
		list = append(list, b.String())
	}
	return list
}

// dataFolder has the published tokenizers and the corpus, which are not kept
// here: SWITCHYARD_DATA, or shared/data beside the repository.
func dataFolder() string {
	if folder := os.Getenv("SWITCHYARD_DATA"); folder != "" {
		return folder
	}
	return "../../../../shared/data"
}

// published are the tokenizers of the data folder.
var published = map[string]string{
	"r50k": "tiktoken/r50k_base.tiktoken", "cl100k": "tiktoken/cl100k_base.tiktoken", "llama4": "llama4", "gpt2": "gpt2",
	"mistral-v1": "mistral/tokenizer.model.v1", "mistral-v2": "mistral/mistral_instruct_tokenizer_240216.model.v2",
	"mistral-v3": "mistral/mistral_instruct_tokenizer_240323.model.v3",
}

// opened are tokenizers by name: some are large.
var opened = struct {
	sync.Mutex
	byName map[string]*Tokenizer
}{byName: map[string]*Tokenizer{}}

// openReference opens a tokenizer of reference.json.gz once, or skips the test.
func openReference(t testing.TB, name string) *Tokenizer {
	t.Helper()
	opened.Lock()
	defer opened.Unlock()
	if opened.byName[name] == nil {
		opened.byName[name] = openFresh(t, name)
	}
	return opened.byName[name]
}

func openFresh(t testing.TB, name string) *Tokenizer {
	t.Helper()
	path, inData := published[name]
	switch {
	case name == "demo":
		path = "../../../models/demo"
	case inData:
		path = filepath.Join(dataFolder(), "tokenizers", path)
		if _, err := os.Stat(path); err != nil {
			t.Skipf("%s is not there; set SWITCHYARD_DATA", path)
		}
	default:
		path = "testdata/small/" + name + ".json"
	}
	tok, err := OpenPath(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// check compares the ids of a text, and what they decode to, with a hash. It
// returns what is wrong.
func checkHash(tok *Tokenizer, text string, special bool, want string) string {
	ids, err := tok.Encode(text, special)
	if err != nil {
		return err.Error()
	}
	if want == "" { // the reference takes no such text: it must come back, if bytes do
		if tok.pieces.bytewise || tok.normal != nil || string(tok.DecodeBytes(ids, false)) == text {
			return ""
		}
		return "it comes back as another text"
	}
	wantIDs, wantText, other := strings.Cut(want, "/")
	packed, _ := binary.Append(nil, binary.LittleEndian, ids)
	if got := shortHash(packed, len(wantIDs)); got != wantIDs {
		return "other ids"
	}
	back := tok.Decode(ids, false)
	if tok.pieces.bytewise || tok.pieces.first != nil {
		if streamed(tok, ids) != back {
			return "another text when decoded id by id"
		}
	} else {
		back = string(tok.DecodeBytes(ids, false))
	}
	if !other && back != text || other && shortHash([]byte(back), len(wantText)) != wantText {
		return "another decoded text"
	}
	return ""
}

func shortHash(data []byte, digits int) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:digits]
}

func streamed(tok *Tokenizer, ids []uint32) string {
	d := tok.NewDetokenizer(false)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(d.Push(id))
	}
	b.WriteString(d.Flush())
	return b.String()
}

func TestNasty(t *testing.T) {
	r, texts := readReference(t), nastyStrings(t)
	for mode, all := range map[string]map[string][]string{"plain": r.Nasty, "special": r.Special} {
		for name, want := range all {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				tok := openReference(t, name)
				for i, text := range texts {
					if !chosen(i, len(name)+len(mode)) {
						continue
					}
					if wrong := checkHash(tok, text, mode == "special", want[i]); wrong != "" {
						t.Errorf("string %d: %s: %.200q", i, wrong, text)
					}
				}
			})
		}
	}
}

// chosen is a third of what there is to check, another one for each tokenizer, and
// less under the race detector; make tokenizer-test checks all.
func chosen(i, tokenizer int) bool {
	part := 3
	if testkit.Race {
		part = 20
	}
	return wholeCorpus() || (i+tokenizer)%part == 0
}

func wholeCorpus() bool { return os.Getenv("SWITCHYARD_WHOLE_CORPUS") != "" }

// corpusFile is a file of the corpus, at most limit bytes of it.
func corpusFile(t testing.TB, name string, limit int64) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(dataFolder(), "corpus", name))
	if err != nil {
		t.Skipf("%v; set SWITCHYARD_DATA", err)
	}
	defer func() { _ = f.Close() }() // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(io.LimitReader(z, limit))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// slice cuts data before the character that reaches beyond size bytes.
func slice(data []byte, size int) (head, rest []byte) {
	end := min(size, len(data))
	for end < len(data) && !utf8.RuneStart(data[end]) {
		end--
	}
	return data[:end], data[end:]
}

// The beginning of each file, by every tokenizer.
func TestCorpusHeads(t *testing.T) {
	r := readReference(t)
	files, heads := slices.Sorted(maps.Keys(r.Heads)), map[string]string{}
	for _, file := range files {
		head, _ := slice(corpusFile(t, file, int64(r.Head)+utf8.UTFMax), r.Head)
		heads[file] = string(head)
	}
	for name := range r.Nasty {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := openReference(t, name)
			for i, file := range files {
				if !chosen(i, len(name)) {
					continue
				}
				head := heads[file]
				if wrong := checkHash(tok, head, false, r.Heads[file][name]); wrong != "" {
					t.Errorf("%s: %s", file, wrong)
				}
			}
		})
	}
}

// The whole corpus takes minutes: make tokenizer-test.
func TestWholeCorpus(t *testing.T) {
	if !wholeCorpus() {
		t.Skip("set SWITCHYARD_WHOLE_CORPUS, as make tokenizer-test does")
	}
	r := readReference(t)
	tokenizers := map[string]*Tokenizer{}
	for name := range r.Nasty {
		tokenizers[name] = openReference(t, name)
	}
	for file, hashes := range r.Corpus {
		t.Run(file, func(t *testing.T) {
			data := corpusFile(t, file, 1<<40)
			total := 0
			for name, want := range hashes {
				rest := data
				for i, hash := range want {
					var part []byte
					part, rest = slice(rest, r.Slice)
					if wrong := checkHash(tokenizers[name], string(part), false, hash); wrong != "" {
						t.Errorf("%s, slice %d: %s", name, i, wrong)
					}
					total += len(part)
				}
			}
			t.Logf("%d tokenizers, %d bytes", len(hashes), total)
		})
	}
}

// What reference.py compares is what is there.
func TestReferenceNamesAll(t *testing.T) {
	r := readReference(t)
	for name := range published {
		if len(r.Nasty[name]) == 0 {
			t.Errorf("%s has no reference", name)
		}
	}
	for _, path := range must(filepath.Glob("testdata/small/*.json")) {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if len(r.Nasty[name]) == 0 || slices.Equal(r.Nasty[name], r.Special[name]) {
			t.Errorf("%s has no reference, or none with special tokens", name)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
