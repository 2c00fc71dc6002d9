package pause

import "testing"

// However often it is sent before it is seen, there is one signal, and then none.
func TestWake(t *testing.T) {
	c := make(chan struct{}, 1)
	for range 2 {
		Wake(c)
		Wake(c)
		if n := len(c); n != 1 {
			t.Fatalf("%d signals", n)
		}
		<-c
	}
	Wake(nil)
}
