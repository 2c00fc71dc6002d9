package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// In JSON, too, a duration says of what it is.
func TestDurationsInJSON(t *testing.T) {
	var out strings.Builder
	Globals{LogLevel: "info", LogFormat: jsonFormat}.Logger(&out).Info("back", "away", 1500*time.Millisecond)
	jsonLines(&out).Info("back", "away", 1500*time.Millisecond)
	if n := strings.Count(out.String(), `"away":"1.5s"`); n != 2 {
		t.Errorf("%d of 2 are readable: %s", n, out.String())
	}
}

// A panic of the command's own goroutine is told as the logs are.
func TestPanicInJSON(t *testing.T) {
	var out strings.Builder
	code := 0
	func() {
		defer exitByPanic(&out, jsonFormat, &code)
		panic("a fault")
	}()
	var said struct{ Level, Msg, Panic string }
	if err := json.Unmarshal([]byte(out.String()), &said); err != nil || code != panicked || said.Level == "" || said.Msg == "" || said.Panic != "a fault" {
		t.Errorf("%d, %v, %s", code, err, out.String())
	}
}
