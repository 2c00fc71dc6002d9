package wholefile

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestRead(t *testing.T) {
	in := fstest.MapFS{"a": {Data: []byte("four")}, "pipe": {Mode: fs.ModeNamedPipe}, "folder/a": {}}
	for name, says := range map[string]string{"a": "", "pipe": "no regular file", "folder": "no regular file", "none": "not exist"} {
		data, err := Read(in, name, 4)
		if says == "" && (err != nil || string(data) != "four") || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %q, error %v", name, data, err)
		}
	}
	if _, err := Read(in, "a", 3); err == nil || !strings.Contains(err.Error(), "at most 3 bytes") {
		t.Errorf("a larger one: error %v", err)
	}
}
