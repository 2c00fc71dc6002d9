package door

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
)

const (
	// slowReaders read a byte a second of answers that fill the context, halfOpen connections
	// never send a request.
	slowReaders, halfOpen = 50, 10_000
	// chats are timed, of so many tokens each.
	chats, chatted = 12, 8
	// mostWait is far below what the slow readers' answers take.
	mostWait = 8 * time.Second
)

// Slow readers, half-open connections and headers without end do not keep others from their
// answers.
func TestSlow(t *testing.T) {
	y := start(t)
	t.Logf("alone: %s", y.chats(t))
	body := `{"model":"demo","messages":[{"role":"user","content":"Tell me a story"}],"ignore_eos":true,"stream":true}`
	for range slowReaders {
		c := y.dial(t, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		go func() {
			for one := make([]byte, 1); ; time.Sleep(time.Second) {
				if _, err := c.Read(one); err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(2 * time.Second) // their answers are under way
	t.Logf("beside %d slow readers: %s", slowReaders, y.chats(t))
	for i := range halfOpen {
		text := "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
		if i%2 == 0 {
			text = ""
		}
		y.dial(t, text)
	}
	t.Logf("beside %d connections without a request: %s; the gateway has %.0f MB", halfOpen, y.chats(t), memory(t, y.gateway))
}

// chats asks for short answers, one after the other, and says how long they took.
func (y *yard) chats(t *testing.T) string {
	t.Helper()
	var took []float64
	for range chats {
		s, err := y.stream(t.Context(), chatted)
		if err != nil || s.status != 200 || s.tokens < chatted {
			t.Fatalf("a chat has status %d, %d tokens: %v %s", s.status, s.tokens, err, s.refusal)
		}
		if s.whole > mostWait {
			t.Errorf("a chat of %d tokens took %v", chatted, s.whole)
		}
		took = append(took, s.whole.Seconds())
	}
	slices.Sort(took)
	return strings.TrimSpace(fmt.Sprintf("chats of %d tokens take %.2f s (p50), %.2f s at most", chatted, quantile.Of(took, 0.5), took[len(took)-1]))
}
