package pause

// Wake leaves a signal in a channel that has room for one, and waits for nobody: who has
// not seen the last signal yet will look at this change with that one.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
