//go:build !linux

package bench

// canDrop says that files can leave the page cache.
const canDrop = false

func dropFile(string) error { return nil }
