package notify

import "testing"

// However often it is sent before it is seen, there is one signal, and then none.
func TestSend(t *testing.T) {
	c := make(chan struct{}, 1)
	for range 2 {
		Send(c)
		Send(c)
		if n := len(c); n != 1 {
			t.Fatalf("%d signals", n)
		}
		<-c
	}
	Send(nil)
}
