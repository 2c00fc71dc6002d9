package tokenizer

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

// While a long text is encoded others have the processor many times, even where there is one.
func TestOthersRunBeside(t *testing.T) {
	tok := openReference(t, "demo")
	for name, text := range map[string]string{"words": strings.Repeat("once upon a time ", 1<<14), "short lines": strings.Repeat("a\n", 1<<17)} {
		had, procs := 0, runtime.GOMAXPROCS(1)
		ended := make(chan struct{})
		var other sync.WaitGroup
		other.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					had++
					runtime.Gosched()
				}
			}
		})
		_, err := tok.Encode(text, false)
		close(ended)
		other.Wait()
		runtime.GOMAXPROCS(procs)
		if want := len(text) / yieldEvery / 2; err != nil || had < want {
			t.Errorf("%s: the other one ran %d times, want %d: %v", name, had, want, err)
		}
	}
}
