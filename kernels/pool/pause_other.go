//go:build !amd64

package pool

// pause does nothing.
func pause() {}
