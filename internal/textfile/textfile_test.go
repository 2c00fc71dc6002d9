package textfile

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a file of a test and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	data := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(data); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		data = b.Bytes()
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	const two = "one\nmore\n<|endoftext|>\n\n<|endoftext|>\ntwo\n"
	tests := []struct {
		name, file, text string
		want             []string
		err              string
	}{
		{"plain", "a.txt", two, []string{"one\nmore", "two"}, ""},
		{"packed", "a.txt.gz", two, []string{"one\nmore", "two"}, ""},
		{"lines", "a.jsonl", `{"text":"one"}` + "\n\n" + `{"question":"2?","answer":"yes","n":2}`, []string{"one", "2?\nyes"}, ""},
		{"packed lines", "a.jsonl.gz", `{"prompt":"one"}`, []string{"one"}, ""},
		{"nothing", "a.txt", "\n<|endoftext|>\n", nil, "no text"},
		{"no field", "a.jsonl", "{}\n{\"n\":1}", nil, "line 1"},
		{"list", "a.json", "[{\"instruction\":\"1?\",\"input\":\"\",\"output\":\"yes\"},\n{\"premise\":\"so\",\"choice1\":\"a\",\"choice2\":\"b\"}]", []string{"1?\nyes", "so\na\nb"}, ""},
		{"no list", "a.json", `{"text":"a"}`, nil, "reading a list"},
		{"no field in a list", "a.json", `[{"text":"a"},{}]`, nil, "object 2"},
		{"no JSON", "a.jsonl", "{\"text\":\"a\"}\nx", nil, "line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Read(write(t, tt.file, tt.text))
			if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was read")
	}
	plain := write(t, "a.txt", "no gzip")
	if err := os.Rename(plain, plain+".gz"); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(plain + ".gz"); err == nil || !strings.Contains(err.Error(), "unpacking") {
		t.Errorf("a text was unpacked: %v", err)
	}
}

func FuzzTexts(f *testing.F) {
	f.Add([]byte("{\"text\":\"a\"}\n"))
	f.Add([]byte("a\n<|endoftext|>\nb"))
	f.Fuzz(func(t *testing.T, data []byte) {
		splitText(string(data))
		lines, err := splitLines(data)
		if err == nil && slices.Contains(lines, "") {
			t.Error("an empty text was found")
		}
	})
}

func TestSplitName(t *testing.T) {
	for text, want := range map[string][2]string{
		"/data/go_stdlib.txt.gz": {"go_stdlib", "/data/go_stdlib.txt.gz"},
		"go=/data/x.txt":         {"go", "/data/x.txt"},
		"/a=b/x.txt":             {"x", "/a=b/x.txt"},
	} {
		if name, path := SplitName(text); name != want[0] || path != want[1] {
			t.Errorf("%s: %q, %q", text, name, path)
		}
	}
}
