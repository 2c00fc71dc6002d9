// Package notify tells one goroutine that another has changed something.
package notify

// Send leaves a signal in a channel that has room for one, and waits for nobody: who has
// not seen the last signal yet will look at this change with that one.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
