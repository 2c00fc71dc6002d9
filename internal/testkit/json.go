package testkit

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
)

// ReadJSON reads what tests compare with; a file whose name ends with .gz is unpacked.
func ReadJSON(t testing.TB, path string, to any) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read
	var data io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if data, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.NewDecoder(data).Decode(to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
